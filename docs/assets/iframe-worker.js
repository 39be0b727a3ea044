// A page that is opened from a file cannot start a Worker. This one runs the script in a hidden frame instead, so that
// the search works without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const base = new URL(address, document.baseURI);
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.frame.addEventListener("load", () => this.start(base), { once: true });
      document.body.append(this.frame);
    }

    async start(base) {
      const inner = this.frame.contentWindow;
      // The script's own postMessage goes to the page. Its listeners get what the page posts.
      inner.postMessage = (data) => setTimeout(() => this.receive(data));
      const load = (script) =>
        new Promise((resolve) => {
          const element = inner.document.createElement("script");
          element.src = new URL(script, base);
          element.onload = resolve;
          inner.document.head.append(element);
        });
      inner.importScripts = (...scripts) => Promise.all(scripts.map(load));
      await load(base);
      this.ready = true;
      for (const data of this.waiting.splice(0)) this.postMessage(data);
    }

    postMessage(data) {
      if (this.ready) {
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      } else {
        this.waiting.push(data);
      }
    }

    receive(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
