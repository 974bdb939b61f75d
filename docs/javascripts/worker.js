/* Search in pages that are opened from a disk: browsers start no workers there, so that a hidden frame does their
   work. (Material for MkDocs would fetch such a script from a CDN.) */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inner = this.frame.contentWindow
      const load = address => new Promise((resolve, reject) => {
        const script = inner.document.createElement("script")
        Object.assign(script, {src: address, onload: resolve, onerror: reject})
        inner.document.body.append(script)
      })
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}))
      inner.importScripts = (...addresses) => Promise.all(addresses.map(load))
      this.ready = load(url)
    }
    postMessage(data) {
      const inner = this.frame.contentWindow
      this.ready.then(() => inner.dispatchEvent(new inner.MessageEvent("message", {data})))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
