"""Write the samples in this folder again: a Llama of random weights on generated sums, run by lm-evaluation-harness.

    pip install lm_eval==0.4.13 torch transformers
    python tests/files/lm_eval/make.py

The files here were written by lm_eval 0.4.13 with transformers 5.23.0, on the CPU. Nothing is downloaded.
"""

import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

TASK = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: {text}
doc_to_choice: {choices}
doc_to_target: {target}
metric_list: [{{metric: acc}}, {{metric: acc_norm}}, {{metric: acc_bytes}}]
"""

FUNCTIONS = """def context(doc): return {"1": 0, "2": 1}[doc["answer"]]
def choices(doc): return [doc["sentence"].split("_")[0] + doc[option] for option in ("option1", "option2")]
def target(doc): return doc["sentence"].split("_")[1].strip()
"""


def write_model(folder):
    """A model that predicts bytes."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2} | {
        c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()), 3)
    }
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.LlamaConfig(vocab_size=len(vocabulary), num_key_value_heads=2, initializer_range=0.5, **sizes, **ids)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def questions():
    """Sums with two to five choices, questions with choices of different length, and two contexts for one ending."""
    rng = random.Random(0)
    sums = []
    for i in range(12):
        a, b = rng.randint(1, 40), rng.randint(1, 40)
        choices = [str(x) for x in rng.sample([x for x in range(2, 90) if x != a + b], 1 + i % 4)]
        choices.insert(rng.randrange(len(choices) + 1), str(a + b))
        sums.append({"question": f"{a} + {b} =", "choices": choices, "answer": str(a + b)})
    triples = [(1, 2, 3), (2, 2, 5), (4, 3, 7), (8, 1, 9), (5, 5, 11), (6, 1, 7)]
    words = [
        {"question": f"Is {a} + {b} = {c}?", "choices": ["no", "yes, 是"], "answer": int(a + b == c)} for a, b, c in triples
    ]
    blanks = [
        {"sentence": f"{a} and {b} are _ in all", "option1": str(a + b + i % 2), "option2": str(a + b + 1 - i % 2)}
        | {"answer": "12"[i % 2]}
        for i, (a, b) in enumerate([(1, 2), (3, 4), (5, 6), (7, 8)])
    ]
    return {"sums": sums, "words": words, "blanks": blanks}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model")
        for task, docs in questions().items():
            data = folder / f"{task}_data.jsonl"
            data.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
            fields = {"text": "question", "choices": "choices", "target": "answer"}
            if task == "blanks":
                fields = {"text": "!function f.context", "choices": "!function f.choices", "target": "!function f.target"}
            (folder / f"{task}.yaml").write_text(TASK.format(name=task, data=data, **fields))
        (folder / "f.py").write_text(FUNCTIONS)
        command = ["lm_eval", "--model", "hf", "--model_args", f"pretrained={folder / 'model'}", "--device", "cpu"]
        command += ["--tasks", "sums,words,blanks", "--include_path", name, "--log_samples", "--output_path", folder / "out"]
        subprocess.run(command, check=True)
        for task in questions():
            (found,) = (folder / "out").rglob(f"samples_{task}_*.jsonl")
            Path(__file__).with_name(f"samples_{task}.jsonl").write_text(found.read_text())


if __name__ == "__main__":
    main()
