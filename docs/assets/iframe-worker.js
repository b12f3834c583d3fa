// The search runs in a worker, and browsers refuse workers to pages that are opened from disk.
// There its script runs in a hidden frame instead, behind the same two-way `postMessage`.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) =>
        setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      const script = this.inside.document.createElement("script");
      script.src = new URL(url, location.href).href;
      this.ready = new Promise((done) => (script.onload = done));
      this.inside.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
  window.Worker = window.IFrameWorker;
}
