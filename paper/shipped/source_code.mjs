// Logits of @vscode/vscode-languagedetection for each line of standard input (a JSON string: a piece of source code).
// The package is run as it is shipped; only the last operation of its graph, the softmax, is replaced by the identity.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const root = process.argv[2]; // the unpacked package
const { ModelOperations } = createRequire(import.meta.url)(`${root}/dist/lib/index.js`);
const model = JSON.parse(readFileSync(`${root}/model/model.json`, "utf8"));
for (const node of model.modelTopology.node)
  if (node.op === "Softmax") node.op = "Identity";
const detector = new ModelOperations({ modelJsonLoaderFunc: async () => model });
let classes = null;
for await (const line of createInterface({ input: process.stdin })) {
  const scores = await detector.runModel(JSON.parse(line));
  scores.sort((a, b) => (a.languageId < b.languageId ? -1 : 1));
  if (classes === null) {
    classes = scores.map((score) => score.languageId);
    console.log(JSON.stringify(classes));
  }
  console.log(JSON.stringify(scores.map((score) => score.confidence)));
}
