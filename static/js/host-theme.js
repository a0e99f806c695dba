// Inside ComfyUI the page wears the palette of its host, which sends its variables under their own
// names. Only a parent of the same origin is heard.

const root = document.documentElement;

export function followHost() {
  if (parent === window) return;
  addEventListener("message", (e) => {
    if (e.source !== parent || e.origin !== location.origin || e.data?.type !== "studio:theme") return;
    for (const [name, value] of Object.entries(e.data.vars ?? {})) if (name.startsWith("--")) root.style.setProperty(name, value);
    root.dataset.theme = "host";
    root.dataset.host = e.data.dark ? "dark" : "light";
    root.style.setProperty("--on-accent", inkOn(colour("--accent-fill")));
  });
  parent.postMessage({ type: "studio:ready" }, location.origin);
}

// colour gives a variable as red, green and blue, 0 to 255, whatever form it is written in.
function colour(name) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(${name})`;
  const paper = document.createElement("canvas").getContext("2d");
  paper.fillStyle = getComputedStyle(probe).color;
  probe.remove();
  paper.fillRect(0, 0, 1, 1);
  return [...paper.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

// inkOn chooses black or white, whichever has more contrast (WCAG 2 relative luminance).
function inkOn(rgb) {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#fff" : "#06090c";
}
