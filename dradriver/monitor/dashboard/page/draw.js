// Draws values of the server as elements. Styles are set through the CSSOM, which the Content-Security-Policy allows.

export function element(name, style = "", text = "") {
  const made = document.createElement(name);
  if (style) made.className = style;
  if (text) made.textContent = text;
  return made;
}

export function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function describeDevice(device) {
  return [...device.users, ...device.problems].join(", ");
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#-";

/** The devices in the order of their letters; those that are not in use come last. */
function sortForLegend(devices) {
  return [...devices].sort((a, b) => LETTERS.indexOf(a.letter) - LETTERS.indexOf(b.letter));
}

function drawKey(device) {
  return element("span", `key${device.color === null ? "" : ` c${device.color}`}`, device.letter);
}

/** A sentence with everything that the drawing of a card shows, for screen readers. */
function describe(card) {
  const lane = card.lanes[0];
  const held = card.devices.map((device) => `${device.name}: ${describeDevice(device)}`);
  return [
    card.name,
    card.product,
    lane ? `${lane.name} ${lane.used} of ${lane.total} used` : "",
    ...held,
    `${card.fits} of ${plural(card.total, "device")} still fit`,
  ].filter(Boolean).join("; ");
}

function drawLane(card, lane) {
  const bar = element("span", "bar");
  if (lane.cells > 1 && lane.cells <= 64) {
    const cells = element("span", "cells");
    cells.style.setProperty("--step", `${100 / lane.cells}%`);
    bar.append(cells);
  }
  for (const [index, start, end] of lane.parts) {
    const device = card.devices[index];
    const part = element("span", `part c${device.color}${device.bad ? " hatched" : ""}`);
    if (end - start > 0.03) part.append(element("span", "letter", device.letter));
    part.style.left = `${start * 100}%`;
    part.style.width = `${(end - start) * 100}%`;
    part.title = `${device.letter} ${device.name}: ${describeDevice(device)}`;
    bar.append(part);
  }
  return bar;
}

/** One line with the claims that hold the card: the height of a row does not depend on them. */
function drawHolders(card) {
  const used = sortForLegend(card.devices).filter((device) => device.color !== null);
  const line = element("span", "holders");
  line.title = used.map((device) => `${device.letter} ${device.claims.join(", ")}`).join("\n");
  for (const device of used) line.append(drawKey(device), element("span", "", device.claims.join(", ")));
  if (!used.length) line.append(element("span", "dim", "not in use"));
  return line;
}

function drawFitting(card) {
  const line = element("span", "fits");
  const bad = card.devices.filter((device) => device.bad);
  line.append(card.fits ? `${card.fits} of ${card.total} still fit` : "nothing fits");
  if (bad.length) {
    const unhealthy = bad.filter((device) => device.problems.includes("unhealthy")).length;
    const counts = [unhealthy ? `${unhealthy} unhealthy` : "", bad.length > unhealthy ? `${bad.length - unhealthy} tainted` : ""];
    line.append(element("span", "bad", `⚠ ${counts.filter(Boolean).join(", ")}`));
  }
  return line;
}

/** A card in a row: its most important lane to scale, and who holds it. */
export function drawCard(card, open) {
  const button = drawLanes(card, open, 1);
  button.insertBefore(drawHolders(card), button.lastChild);
  return button;
}

/** A card of several nodes. The caller adds `drawLegend`. */
export function drawLanes(card, open, maxLanes) {
  const button = element("button", "card");
  button.type = "button";
  button.setAttribute("aria-label", `${describe(card)}. Show details`);
  button.title = card.name;
  const lanes = card.lanes.slice(0, maxLanes);
  const parent = lanes.length > 1 ? element("span", "lanes") : button;
  if (lanes.length > 1) {
    button.classList.add("wide");
    button.append(parent);
  }
  lanes.forEach((lane) => {
    const label = element("span", "label");
    const name = lanes.length > 1 ? lane.name : card.name;
    label.append(element("span", "", name), element("span", "", `${lane.used} / ${lane.total}`));
    label.title = `${name}: ${lane.used} of ${lane.total} ${lane.name}`;
    const box = element("span", "lane");
    box.append(label, drawLane(card, lane));
    parent.append(box);
  });
  button.append(drawFitting(card));
  button.addEventListener("click", () => open(card));
  return button;
}

/** Who holds what. */
export function drawLegend(devices, style = "legend") {
  const legend = element("ul", style);
  for (const device of sortForLegend(devices)) {
    const text = element("div");
    text.append(element("strong", "", device.name), element("span", "dim", device.users.join(", ")));
    if (device.problems.length) text.append(element("span", "bad", device.problems.join(", ")));
    const line = element("li");
    line.append(drawKey(device), text);
    legend.append(line);
  }
  return legend;
}

/** A card with all lanes, drawn by the server, and its legend. */
export function drawDetail(card) {
  const box = element("section", "detail");
  const drawing = new DOMParser().parseFromString(card.svg, "image/svg+xml").documentElement;
  const side = element("div");
  const fitting = `${card.fits} of ${plural(card.total, "device")} still fit${card.fits ? `: ${card.fitting.join(", ")}` : ""}`;
  side.append(drawLegend(card.devices), element("p", "dim", fitting));
  box.append(
    element("h3", "", card.name),
    element("p", "dim", [`${card.driver}/${card.pool}`, card.product].filter(Boolean).join(" · ")),
    document.importNode(drawing, true),
    side,
  );
  return box;
}

export function products(cards) {
  const counts = new Map();
  for (const card of cards) {
    const name = card.product || (cards.length === 1 ? "card" : "cards");
    counts.set(name, (counts.get(name) || 0) + 1);
  }
  return [...counts].map(([name, count]) => name.startsWith("card") ? `${count} ${name}` : `${count} × ${name}`).join(", ");
}

export function age(since) {
  const seconds = Math.max(0, (Date.now() - Date.parse(since)) / 1000);
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}
