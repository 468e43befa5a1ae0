// The search of these pages runs in a Worker, which browsers refuse to pages that are opened as
// files. There an invisible frame takes its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      this.inside = frame.contentWindow;
      this.terminate = () => frame.remove();
      addEventListener("message", ({ source, data }) => {
        if (source === this.inside) this.dispatchEvent(new MessageEvent("message", { data }));
      });
      this.inside.document.open();
      this.inside.document.write(
        `<body><script>postMessage = (data) => parent.postMessage(data, "*")</script>` +
          `<script src="${url}"></script></body>`,
      );
      this.inside.document.close();
      this.ready = new Promise((resolve) => (this.inside.onload = resolve)); // open() forgets it
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
