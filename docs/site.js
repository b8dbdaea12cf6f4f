// Tables that are wider than the page scroll; people without a mouse must be able to reach them. The theme frames tables when it
// has loaded, so this waits for that.
window.addEventListener("load", () =>
  setTimeout(() => document.querySelectorAll(".md-typeset__scrollwrap").forEach((frame) => (frame.tabIndex = 0)), 100),
)
