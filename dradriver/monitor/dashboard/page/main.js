// The page: connects, keeps the lists and rows current, and opens details.

import { age, drawDetail, drawLanes, drawLegend, element, plural, products } from "./draw.js";
import { follow, request, Unauthorized } from "./events.js";
import { addTallies, countCards, Rows } from "./rows.js";

const find = (id) => document.getElementById(id);
const rows = new Rows(find("nodes").querySelector(".rows"), openNode);
let token = "";
let lists = { waiting: [], problems: [], changes: [] };
let reaches = [];
let since = null;

function showState(style, text) {
  find("state").className = style;
  if (find("state-text").textContent !== text) find("state-text").textContent = text;
}

function setCount(id, count) {
  find(id).querySelector(".count").textContent = count ? String(count) : "";
}

function drawSummary() {
  const { cards, held, free, bad } = addTallies([rows.tally(), ...reaches.map((reach) => countCards(reach.cards))]);
  const others = new Set(reaches.flatMap((reach) => reach.nodes).filter((name) => !rows.rows.has(name)));
  const nodes = rows.rows.size + others.size;
  const noun = (count, word) => plural(count, word).slice(String(count).length + 1);
  const figures = [
    [nodes, `${noun(nodes, "node")} with devices`],
    [cards, noun(cards, "card")],
    [held, `${noun(held, "card")} in use`],
    [free, `${noun(free, "card")} with free devices`],
    [lists.waiting.length, "waiting"],
    [bad, `${noun(bad, "card")} with taints or failures`, bad > 0],
    ...(lists.problems.length ? [[lists.problems.length, `broken ${noun(lists.problems.length, "pool")}`, true]] : []),
  ];
  find("summary").replaceChildren(...figures.map(([count, text, alert]) => {
    const box = element("div", alert ? "figure alert" : "figure");
    box.append(element("b", "", count.toLocaleString("en")), element("span", "", text));
    return box;
  }));
}

function drawLists() {
  const problems = lists.problems.map((each) => {
    const line = element("li", "item");
    line.append(element("strong", "", `${each.driver}/${each.pool}`), element("span", "reason", each.problem));
    return line;
  });
  find("problems").hidden = problems.length === 0;
  find("problems").querySelector("ul").replaceChildren(...problems);
  setCount("problems", problems.length);
  const focused = document.activeElement?.dataset?.ref;
  const waiting = lists.waiting.slice(0, 200).map((each) => {
    const line = element("li");
    const button = element("button", "item");
    button.type = "button";
    button.dataset.ref = `${each.kind} ${each.ref}`;
    const title = element("span", "title");
    title.append(element("span", "", `${each.kind === "Pod" ? "pod" : "claim"} ${each.ref}`));
    if (each.since) title.append(element("time", "", age(each.since)));
    button.append(title, element("span", "reason", each.reason), element("span", "more", "Explain"));
    button.addEventListener("click", () => openExplanation(each));
    line.append(button);
    return line;
  });
  if (lists.waiting.length > 200) waiting.push(element("li", "dim", `and ${lists.waiting.length - 200} more`));
  find("waiting").querySelector("ul").replaceChildren(...(waiting.length ? waiting : [element("li", "dim", "Nothing waits.")]));
  if (focused) [...document.querySelectorAll("[data-ref]")].find((each) => each.dataset.ref === focused)?.focus();
  setCount("waiting", lists.waiting.length);
  const changes = lists.changes.map((each) => {
    const line = element("li");
    const at = element("time", "", new Date(each.at).toLocaleTimeString("en-GB"));
    at.dateTime = each.at;
    line.append(at, element("span", each.bad ? "bad" : "", each.text));
    return line;
  });
  find("changes").querySelector("ul").replaceChildren(...(changes.length ? changes : [element("li", "dim", "Nothing yet.")]));
}

function drawReaches() {
  const boxes = reaches.map((reach) => {
    const box = element("article", "row");
    const head = element("div", "head");
    const where = reach.everywhere ? "all nodes" : `${reach.nodes.length} nodes`;
    const names = reach.everywhere ? ["all nodes"] : reach.nodes.slice(0, 32);
    if (reach.nodes.length > 32 && !reach.everywhere) names.push(`and ${reach.nodes.length - 32} more`);
    head.append(element("h3", "", reach.pool), element("span", "about", [reach.driver, products(reach.cards)].join(" · ")), element("span", "about end", `spans ${where}`));
    // If each node has a lane, the node is above its lane.
    const isAligned = reach.cards.length === 1 && reach.cards[0].lanes.length === names.length;
    const span = element("div", isAligned ? "span aligned" : "span");
    span.append(...names.map((name) => element("span", "", name)));
    const cards = element("div", "cards");
    cards.append(...reach.cards.map((card) => drawLanes(card, () => openReach(reach), 8)));
    const devices = new Map(reach.cards.flatMap((card) => card.devices).map((device) => [device.name, device]));
    box.append(head, span, cards, drawLegend(devices.values(), "legend short"));
    return box;
  });
  find("reaches").hidden = boxes.length === 0;
  find("reaches").querySelector(".rows").replaceChildren(...boxes);
  setCount("reaches", boxes.length);
}

function applyFilter() {
  const words = find("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = rows.filter(words);
  const total = rows.rows.size;
  find("nodes").querySelector(".count").textContent = words.length ? `${shown} of ${total}` : String(total);
  find("no-nodes").hidden = shown > 0;
  find("no-nodes").textContent = total ? "No node matches the filter." : reaches.length ? "No node has devices of its own." : "No node has devices yet: drivers publish them as ResourceSlices.";
}

const handlers = {
  begin(value) {
    rows.clear();
    lists = value;
    reaches = value.reaches;
    find("content").hidden = false;
    drawReaches();
    drawLists();
  },
  nodes(batch) {
    rows.put(batch);
  },
  complete() {
    applyFilter();
    drawSummary();
    performance.mark("drawn");
  },
  reaches(value) {
    reaches = value;
    drawReaches();
  },
  changed({ nodes, gone }) {
    const before = rows.rows.size;
    rows.put(nodes);
    gone.forEach((name) => rows.remove(name));
    if (rows.rows.size !== before || gone.length) rows.sort();
    applyFilter();
  },
  lists(value) {
    lists = value;
    drawLists();
    drawSummary();
    performance.mark("updated");
  },
  status({ problem, missing }) {
    if (problem) showState("stale", `Not current: ${problem}`);
    else showState("live", "Live");
    const lines = Object.entries(missing).map(([name, reason]) => `${name} are not shown: ${reason}`);
    find("missing").hidden = lines.length === 0;
    find("missing").textContent = lines.join(" ");
  },
};

async function run() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 15_000)) {
    let text = "the server closed the connection";
    try {
      await follow(token, (name, value) => {
        wait = 250;
        since = new Date();
        handlers[name]?.(value);
      });
    } catch (error) {
      if (error instanceof Unauthorized) {
        await signIn(token ? error.message : "");
        wait = 250;
        continue;
      }
      text = error.message;
    }
    const last = since ? `; last heard ${since.toLocaleTimeString("en-GB")}` : "";
    showState("stale", `Not current: ${text}${last}. Connecting again …`);
    await new Promise((done) => setTimeout(done, wait * (0.75 + Math.random() / 2)));
  }
}

function signIn(problem) {
  const form = find("sign-in");
  find("content").hidden = true;
  rows.clear();
  form.hidden = false;
  find("sign-in-problem").textContent = problem;
  showState("", "Not signed in");
  find("token").focus();
  return new Promise((done) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      token = find("token").value.trim();
      find("token").value = "";
      form.hidden = true;
      showState("", "Connecting …");
      done();
    };
  });
}

async function openDetails(title, path, draw) {
  const body = find("details-body");
  find("details-title").textContent = title;
  body.replaceChildren(element("p", "dim", "Reading …"));
  if (!find("details").open) find("details").showModal();
  try {
    body.replaceChildren(...draw(await (await request(path, token)).json()));
  } catch (error) {
    body.replaceChildren(element("p", "bad", error.message));
  }
}

function openNode(node, chosen) {
  const first = (cards) => [...cards].sort((a, b) => Number(isSame(b, chosen)) - Number(isSame(a, chosen)));
  openDetails(`Node ${node.name}`, `api/node?${new URLSearchParams({ name: node.name })}`, (cards) => first(cards).map(drawDetail));
}

function isSame(one, other) {
  return one.driver === other.driver && one.pool === other.pool && one.name === other.name;
}

function openReach(reach) {
  const query = new URLSearchParams({ driver: reach.driver, pool: reach.pool });
  openDetails(`Pool ${reach.pool} of ${reach.driver}`, `api/pool?${query}`, (cards) => cards.map(drawDetail));
}

function openExplanation({ kind, ref }) {
  openDetails(`Why ${kind === "Pod" ? "pod" : "claim"} ${ref} waits`, `api/explain?${new URLSearchParams({ kind, ref })}`, ({ lines }) => {
    const list = element("ol");
    list.append(...lines.map((line) => element("li", "", line)));
    return [list];
  });
}

find("filter").addEventListener("input", applyFilter);
find("close").addEventListener("click", () => find("details").close());
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !isTyping && !find("details").open) {
    event.preventDefault();
    find("filter").focus();
  }
});
run();
