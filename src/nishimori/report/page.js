"use strict";
// The slider, its buttons and the sorting of tables. The page is readable without this file, and Vega draws the charts.
(() => {
  const found = JSON.parse(document.getElementById("results").textContent);
  const places = found.places;
  const percent = (value) => `${(100 * value).toFixed(2)} %`;
  const plain = (factor) => (value) => (factor * value).toFixed(4);
  const points = (value) => {
    const size = Math.abs(100 * value).toFixed(2);
    return Number(size) ? `${value < 0 ? "−" : "+"}${size}` : "0";
  };
  const written = (each) => (each.is_signed ? points : each.in_percent ? percent : plain(each.factor));
  const shown = Object.fromEntries(found.scores.map((each) => [each.name, written(each)]));
  shown.accuracy = percent;
  const temperature = (each) => found.of_claims ? "as it is" : `T = ${Number(each.temperature.toPrecision(4))}`;
  const title = (each) => (each.temperature === null ? each.names[0] : temperature(each));
  let current = found.start;

  // --- charts: the same specifications as the static pictures, with the bins of every place of the slider
  const names = found.bins;
  const row = (place, bin) => Object.fromEntries([["place", place], ...names.map((name, i) => [name, bin[i]])]);
  const datasets = {
    bins: places.flatMap((each, place) => each.bins.map((bin) => row(place, bin))),
    curve: places.map((each, place) => ({ place, ...each, bins: undefined })).filter((each) => each.temperature !== null),
  };
  const views = {};
  // The curves over T mark the place of the slider, which methods without a temperature leave where it is.
  const move = (id) => views[id].signal("place", id === "curves" ? Number(slider.value) : current).runAsync();
  for (const [id, spec] of Object.entries(found.specs)) {
    const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: { theme: "custom" } };
    const target = document.createElement("div");
    window.vegaEmbed(target, { ...spec, datasets }, options).then((drawn) => {
      document.getElementById(id).replaceChildren(target);
      views[id] = drawn.view;
      move(id);
    });
  }

  // --- the slider
  const slider = document.getElementById("temperature");
  const buttons = [...document.querySelectorAll("[data-place]")];
  const show = (place) => {
    const now = { accuracy: found.accuracy, ...places[place] };
    const names = now.temperature !== null && now.names.length && !found.of_claims ? ` (${now.names.join(", ")})` : "";
    const text = title(now) + names;
    current = place;
    if (now.temperature !== null) { // a method without a temperature has no place on the slider
      slider.value = place;
      slider.setAttribute("aria-valuetext", text);
    }
    document.getElementById("shown-temperature").textContent = text;
    document.getElementById("now").textContent = title(now);
    for (const cell of document.querySelectorAll("#scores [data-score]")) {
      const value = now[cell.dataset.score];
      cell.textContent = value === null ? "infinite" : shown[cell.dataset.score](value);
    }
    for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.place) === place));
    for (const id of Object.keys(views)) move(id);
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  for (const button of buttons) button.addEventListener("click", () => show(Number(button.dataset.place)));
  for (const each of [slider, ...buttons]) each.disabled = false;
  show(current); // a browser may remember another place than the page has

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
