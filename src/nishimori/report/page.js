"use strict";
// The slider, its buttons and the sorting of tables. The page is readable without this file, and Vega draws the charts.
(() => {
  const found = JSON.parse(document.getElementById("results").textContent);
  const places = found.places;
  const percent = (value) => `${(100 * value).toFixed(2)} %`;
  const plain = (factor) => (value) => (factor * value).toFixed(4);
  const shown = Object.fromEntries(found.scores.map((each) => [each.name, each.in_percent ? percent : plain(each.factor)]));
  const temperature = (value) => `T = ${Number(value.toPrecision(4))}`;

  // --- charts: the same specifications as the static pictures, with the bins of every place of the slider
  const names = found.bins;
  const row = (place, bin) => Object.fromEntries([["place", place], ...names.map((name, i) => [name, bin[i]])]);
  const datasets = {
    bins: places.flatMap((each, place) => each.bins.map((bin) => row(place, bin))),
    curve: places.map((each, place) => ({ place, ...each, bins: undefined })),
  };
  const views = [];
  for (const [id, spec] of Object.entries(found.specs)) {
    const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: { theme: "custom" } };
    const target = document.createElement("div");
    window.vegaEmbed(target, { ...spec, datasets }, options).then((drawn) => {
      document.getElementById(id).replaceChildren(target);
      views.push(drawn.view);
      drawn.view.signal("place", Number(slider.value)).runAsync();
    });
  }

  // --- the slider
  const slider = document.getElementById("temperature");
  const buttons = [...document.querySelectorAll("[data-place]")];
  const show = (place) => {
    const now = places[place];
    const text = temperature(now.temperature) + (now.names.length ? ` (${now.names.join(", ")})` : "");
    slider.value = place;
    slider.setAttribute("aria-valuetext", text);
    document.getElementById("shown-temperature").textContent = text;
    document.getElementById("now").textContent = temperature(now.temperature);
    for (const cell of document.querySelectorAll("#scores [data-score]")) {
      const value = now[cell.dataset.score];
      cell.textContent = value === null ? "infinite" : shown[cell.dataset.score](value);
    }
    for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.place) === place));
    for (const view of views) view.signal("place", place).runAsync();
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  for (const button of buttons) button.addEventListener("click", () => show(Number(button.dataset.place)));
  for (const each of [slider, ...buttons]) each.disabled = false;
  show(Number(slider.value)); // a browser may remember another place than the page has

  // --- sorting: numbers by value, texts by their order; the second click turns the order round
  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    if (a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    return a === b ? 0 : a === "" ? 1 : b === "" ? -1 : a.localeCompare(b);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      button.disabled = false;
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "descending";
        for (const each of heads) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        const value = (each) => each.cells[column].dataset.value;
        rows.sort((a, b) => (up ? 1 : -1) * compare(value(a), value(b)));
        table.tBodies[0].append(...rows);
      });
    });
  }
})();
