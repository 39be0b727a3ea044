// The rows of nodes. Only rows near the screen are drawn; the others have their height and their name.

import { drawCard, element, products } from "./draw.js";

// The sizes of `dashboard.css`, in rem, with the gaps between cards.
const CARD_WIDTH = 15 + 0.8;
const CARD_HEIGHT = 6.08 + 0.5;
const HEAD_HEIGHT = 3.53 - 0.5;

export class Rows {
  constructor(container, open) {
    this.container = container;
    this.open = open;
    this.rows = new Map();
    this.columns = 1;
    this.observer = new IntersectionObserver((entries) => this.#drawVisible(entries), { rootMargin: "900px 0px" });
    new ResizeObserver(() => this.#measure()).observe(container);
  }

  clear() {
    this.observer.disconnect();
    this.rows.clear();
    this.container.replaceChildren();
  }

  /** Add or replace nodes, whose order is the order of their names. */
  put(nodes) {
    const added = document.createDocumentFragment();
    for (const node of nodes) {
      const known = this.rows.get(node.name);
      if (known) {
        this.#change(known, node);
        continue;
      }
      const row = { node, element: this.#makeRow(node), text: "", isDrawn: false, isShown: true, tally: countCards(node.cards) };
      this.rows.set(node.name, row);
      added.append(row.element);
      this.observer.observe(row.element);
    }
    if (added.childNodes.length) this.container.append(added);
    if (this.rows.size === nodes.length) this.#measure();
  }

  /** After changes of a running cluster: new nodes move to their place. */
  sort() {
    const wanted = [...this.rows.keys()].sort((a, b) => (a < b ? -1 : 1));
    wanted.forEach((name, index) => {
      const { element } = this.rows.get(name);
      if (this.container.children[index] !== element) this.container.insertBefore(element, this.container.children[index] || null);
    });
  }

  remove(name) {
    const row = this.rows.get(name);
    if (!row) return;
    this.observer.unobserve(row.element);
    row.element.remove();
    this.rows.delete(name);
  }

  /** Show the rows that contain all words. Returns their number. */
  filter(words) {
    let shown = 0;
    for (const row of this.rows.values()) {
      if (words.length && !row.text) row.text = searchText(row.node);
      const matches = words.every((word) => row.text.includes(word));
      if (row.isShown !== matches) row.element.hidden = !matches;
      row.isShown = matches;
      if (matches) shown += 1;
    }
    return shown;
  }

  /** The sums of `countCards` of all nodes. Each node is counted when it changes, not at each update. */
  tally() {
    return addTallies([...this.rows.values()].map((row) => row.tally));
  }

  #makeRow(node) {
    const box = element("article", "row");
    const head = element("div", "head");
    const title = element("h3", "", node.name);
    head.append(title);
    box.append(head);
    fillHead(head, node);
    this.#reserve(box, node);
    return box;
  }

  #change(row, node) {
    row.node = node;
    row.text = "";
    row.tally = countCards(node.cards);
    fillHead(row.element.firstChild, node);
    this.#reserve(row.element, node);
    if (row.isDrawn) this.#draw(row);
  }

  #reserve(box, node) {
    const lines = Math.ceil(node.cards.length / this.columns);
    box.style.minHeight = `${HEAD_HEIGHT + lines * CARD_HEIGHT}rem`;
  }

  #measure() {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const columns = Math.max(1, Math.floor(((this.container.firstElementChild || this.container).clientWidth / rem - 1.6 + 0.8) / CARD_WIDTH));
    if (columns === this.columns) return;
    this.columns = columns;
    for (const row of this.rows.values()) this.#reserve(row.element, row.node);
  }

  #drawVisible(entries) {
    for (const entry of entries) {
      const row = this.rows.get(entry.target.firstChild.firstChild.textContent);
      if (!row) continue;
      if (entry.isIntersecting && !row.isDrawn) this.#draw(row);
      else if (!entry.isIntersecting && row.isDrawn && !row.element.contains(document.activeElement)) {
        row.element.lastChild.remove();
        row.isDrawn = false;
      }
    }
  }

  #draw(row) {
    const focused = row.isDrawn ? [...row.element.lastChild.children].indexOf(document.activeElement) : -1;
    if (row.isDrawn) row.element.lastChild.remove();
    const cards = element("div", "cards");
    cards.append(...row.node.cards.map((card) => drawCard(card, (chosen) => this.open(row.node, chosen))));
    row.element.append(cards);
    row.isDrawn = true;
    if (focused >= 0) cards.children[focused]?.focus();
  }
}

export function countCards(cards) {
  return {
    cards: cards.length,
    held: cards.filter((card) => card.devices.some((device) => device.color !== null)).length,
    free: cards.filter((card) => card.fits > 0).length,
    bad: cards.filter((card) => card.devices.some((device) => device.bad)).length,
  };
}

export function addTallies(tallies) {
  const sum = { cards: 0, held: 0, free: 0, bad: 0 };
  for (const each of tallies) for (const key of Object.keys(sum)) sum[key] += each[key];
  return sum;
}

function fillHead(head, node) {
  head.replaceChildren(head.firstChild);
  if (!node.ready) head.append(element("span", "badge", "not ready or cordoned"));
  head.append(element("span", "about", products(node.cards)));
}

function searchText(node) {
  const held = node.cards.flatMap((card) => [card.name, card.driver, card.product, ...card.devices.flatMap((device) => [device.name, ...device.users, ...device.problems])]);
  const labels = Object.entries(node.labels).map(([key, value]) => `${key}=${value}`);
  return [node.name, ...labels, ...held].join("\n").toLowerCase();
}
