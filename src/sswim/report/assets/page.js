// Draws the charts of a page, and makes tables sort and colours switch. It has no dependencies and
// makes no requests. Text from data is only ever set as text, never parsed as HTML.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const read = (script) => JSON.parse(script.textContent);
  const shared = Object.assign({}, ...all("script.shared").map(read));
  const values = (given) => (typeof given === "string" ? shared[given] : given);
  const isNumber = (value) => typeof value === "number";

  function element(tag, parent, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  function shape(tag, parent, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  // Numbers and ticks

  function digits(value, significant = 4) {
    if (!isNumber(value)) return "missing";
    const size = Math.abs(value);
    let text;
    if (size !== 0 && (size >= 1e7 || size < 1e-4)) {
      text = value.toExponential(significant - 1).replace(/\.?0+e/, "e").replace("e+", "e");
    } else {
      text = value.toLocaleString("en-US", { maximumSignificantDigits: Math.max(significant, size >= 1e4 ? 7 : 0) });
    }
    return text.replace(/-/g, "−");
  }

  const HOUR = 3600, DAY = 24 * HOUR, YEAR = 365.2425 * DAY;
  const date = (seconds) => new Date(seconds * 1000).toISOString();

  function timeText(seconds, span = 0) {
    if (!isNumber(seconds) || Math.abs(seconds) > 8e12) return digits(seconds);
    if (span > 3 * YEAR) return date(seconds).slice(0, 4);
    if (span > 100 * DAY) return date(seconds).slice(0, 7);
    if (span > 4 * DAY) return date(seconds).slice(0, 10);
    if (span > 0) return date(seconds).slice(5, 16).replace("T", " ");
    return date(seconds).slice(0, 19).replace("T", " ");
  }

  function niceStep(raw) {
    const power = 10 ** Math.floor(Math.log10(raw));
    return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw * 0.999);
  }

  function ticks(axis, low, high, count) {
    const span = high - low;
    if (axis.levels) {
      const step = Math.max(1, Math.ceil(axis.levels.length / Math.max(1, count)));
      return axis.levels.map((text, at) => ({ at, text })).filter(({ at }) => at % step === 0 && at >= low && at <= high);
    }
    if (axis.time) {
      const units = [60, 300, 1800, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30.4369 * DAY, 91.31 * DAY, 182.62 * DAY];
      const step = units.find((unit) => span / unit <= count) ?? niceStep(span / count / YEAR) * YEAR;
      const found = [];
      for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push({ at, text: timeText(at, span) });
      return found;
    }
    const step = niceStep(span / count);
    const found = [];
    for (let index = Math.ceil(low / step - 1e-9); index * step <= high + 1e-9 * span; index += 1) {
      const at = Number((index * step).toPrecision(12));
      found.push({ at, text: digits(at, 6) });
    }
    return found;
  }

  function axisText(axis, value) {
    if (axis.levels) return axis.levels[Math.round(value)] ?? "";
    return axis.time ? timeText(value) : digits(value);
  }

  const STOPS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"].map(
    (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)),
  );

  function colour(share) {
    const place = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
    const first = Math.min(Math.floor(place), STOPS.length - 2);
    return STOPS[first].map((low, at) => Math.round(low + (STOPS[first + 1][at] - low) * (place - first)));
  }

  function cut(text, room) {
    const letters = [...text];
    return letters.length > room ? `${letters.slice(0, Math.max(1, room - 1)).join("")}…` : text;
  }

  // Tooltips

  const tip = element("div", document.body, "tip");
  tip.hidden = true;
  tip.setAttribute("role", "status");

  function showTip(lines, x, y) {
    tip.replaceChildren();
    for (const [name, value] of lines) {
      const line = element("div", tip);
      element("span", line, "", cut(name, 32));
      element("span", line, "", cut(value, 40));
    }
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth;
    const left = x + 14 + width > room - 4 ? x - 14 - width : x + 14;
    tip.style.left = `${Math.max(4, Math.min(left, room - width - 4))}px`;
    tip.style.top = `${y - height - 12 < 4 ? y + 16 : y - height - 12}px`;
  }

  // Charts

  const extent = (found, list) => {
    for (const value of list) {
      if (!isNumber(value)) continue;
      if (value < found[0]) found[0] = value;
      if (value > found[1]) found[1] = value;
    }
    return found;
  };

  const LAYERS = {
    line: {
      x: (layer) => layer.x,
      y: (layer) => layer.y,
      draw(layer, scale, parent) {
        let path = "", pen = "M";
        layer.x.forEach((x, at) => {
          if (!isNumber(layer.y[at])) { pen = "M"; return; }
          path += `${pen}${scale.x(x)} ${scale.y(layer.y[at])}`;
          pen = "L";
        });
        shape("path", parent, { d: path, class: `line s${layer.colour} ${layer.style ?? ""}` });
      },
    },
    level: {
      x: () => [],
      y: (layer) => [layer.at],
      draw(layer, scale, parent) {
        const [left, right] = scale.ends;
        shape("path", parent, { d: `M${left} ${scale.y(layer.at)}H${right}`, class: `line dash s${layer.colour}` });
      },
    },
    band: {
      x: (layer) => layer.x,
      y: (layer) => [...layer.lower, ...layer.upper],
      draw(layer, scale, parent) {
        const there = layer.x.map((x, at) => `${scale.x(x)} ${scale.y(layer.upper[at])}`);
        const back = layer.x.map((x, at) => `${scale.x(x)} ${scale.y(layer.lower[at])}`).reverse();
        shape("path", parent, { d: `M${there.join("L")}L${back.join("L")}Z`, class: `band f${layer.colour} ${layer.style ?? ""}` });
      },
    },
    points: {
      x: (layer) => layer.x,
      y: (layer) => layer.y,
      draw(layer, scale, parent) {
        let path = "";
        layer.x.forEach((x, at) => {
          if (isNumber(x) && isNumber(layer.y[at])) path += `M${scale.x(x)} ${scale.y(layer.y[at])}h0`;
        });
        const size = layer.x.length > 1500 ? 3.4 : layer.x.length > 300 ? 4.4 : 6;
        const dots = shape("path", parent, { d: path, class: `${layer.style ?? "dots"} s${layer.colour}` });
        if (!layer.style) dots.setAttribute("stroke-width", size);
      },
    },
    spans: {
      x: (layer) => layer.x,
      y: (layer) => [...layer.lower, ...layer.upper],
      draw(layer, scale, parent) {
        const path = layer.x.map((x, at) => `M${scale.x(x)} ${scale.y(layer.lower[at])}V${scale.y(layer.upper[at])}`);
        shape("path", parent, { d: path.join(""), class: `spans s${layer.colour}` });
      },
    },
    rug: {
      x: (layer) => layer.x,
      y: () => [],
      draw(layer, scale, parent) {
        const path = layer.x.filter(isNumber).map((x) => `M${scale.x(x)} ${scale.bottom}v-6`);
        shape("path", parent, { d: path.join(""), class: `line thin s${layer.colour}` });
      },
    },
    boxes: {
      x: (layer) => layer.edges,
      y: (layer) => [0, ...layer.y],
      draw(layer, scale, parent) {
        const path = layer.y.map((y, at) => {
          const left = scale.x(layer.edges[at]), right = scale.x(layer.edges[at + 1]);
          return `M${left} ${scale.y(0)}V${scale.y(y)}H${Math.max(left, right - 1)}V${scale.y(0)}Z`;
        });
        shape("path", parent, { d: path.join(""), class: `boxes f${layer.colour}` });
      },
    },
    heat: {
      x: (layer) => layer.x,
      y: (layer) => layer.y,
      draw(layer, scale, parent) {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [layer.columns, layer.rows];
        const context = canvas.getContext("2d");
        const image = context.createImageData(layer.columns, layer.rows);
        layer.values.forEach((value, at) => {
          const row = layer.rows - 1 - Math.floor(at / layer.columns);
          const place = 4 * (row * layer.columns + (at % layer.columns));
          const share = (value - layer.low) / (layer.high - layer.low || 1);
          image.data.set([...colour(share), isNumber(value) ? 255 : 0], place);
        });
        context.putImageData(image, 0, 0);
        const [left, right] = layer.x.map(scale.x), [bottom, top] = layer.y.map(scale.y);
        const box = { x: left, y: top, width: right - left, height: bottom - top, preserveAspectRatio: "none" };
        shape("image", parent, { ...box, href: canvas.toDataURL() });
      },
    },
  };

  class Chart {
    constructor(figure) {
      this.spec = read(figure.querySelector("script"));
      this.layers = this.spec.layers.map((layer) => {
        const names = ["x", "y", "lower", "upper", "edges", "values", "numbers"];
        const resolved = names.filter((name) => name in layer).map((name) => [name, values(layer[name])]);
        return { ...layer, ...Object.fromEntries(resolved) };
      });
      this.hidden = new Set();
      this.view = null;
      this.figure = figure;
      const head = figure.querySelector(".chart-head");
      this.reset = element("button", head, "reset", "Reset zoom");
      this.reset.type = "button";
      this.reset.hidden = true;
      this.reset.addEventListener("click", () => this.zoom(null));
      this.plot = figure.querySelector(".plot");
      this.makeLegend();
      this.makeScale();
      new ResizeObserver(() => {
        if (this.plot.clientWidth && this.plot.clientWidth !== this.width) this.draw();
      }).observe(this.plot);
      this.plot.addEventListener("pointerleave", () => this.leave());
    }

    shown() {
      return this.layers.filter((layer) => !this.hidden.has(layer.name));
    }

    makeLegend() {
      const named = [...new Map(this.layers.filter((layer) => layer.name && layer.kind !== "heat").map((layer) => [layer.name, layer])).values()];
      if (named.length < 2) return;
      const legend = element("div", null, "legend");
      for (const layer of named) {
        const button = element("button", legend);
        const mark = { band: "block", boxes: "block", points: "dot" }[layer.kind] ?? "";
        element("i", button, `b${layer.colour} ${mark}`);
        button.type = "button";
        button.append(layer.name);
        button.setAttribute("aria-pressed", "true");
        button.addEventListener("click", () => {
          if (!this.hidden.delete(layer.name)) this.hidden.add(layer.name);
          button.setAttribute("aria-pressed", String(!this.hidden.has(layer.name)));
          this.draw();
        });
      }
      this.plot.before(legend);
    }

    makeScale() {
      const heat = this.layers.find((layer) => layer.kind === "heat");
      if (!heat) return;
      const scale = element("div", null, "scale");
      element("span", scale, "", digits(heat.low, 3));
      const canvas = element("canvas", scale);
      [canvas.width, canvas.height] = [128, 1];
      const context = canvas.getContext("2d");
      for (let at = 0; at < 128; at += 1) {
        context.fillStyle = `rgb(${colour(at / 127).join(" ")})`;
        context.fillRect(at, 0, 1, 1);
      }
      element("span", scale, "", digits(heat.high, 3));
      this.plot.after(scale);
    }

    domain(side) {
      const axis = this.spec[side];
      if (this.view) return this.view[side];
      if (axis.domain) return axis.domain;
      if (axis.levels) return [-0.6, axis.levels.length - 0.4];
      const found = [Infinity, -Infinity];
      for (const layer of this.shown()) if (!layer.rule) extent(found, LAYERS[layer.kind][side](layer));
      if (found[0] > found[1]) return [0, 1];
      let [low, high] = found;
      if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
      if (this.layers.some((layer) => layer.kind === "heat")) return [low, high];
      const room = 0.04 * (high - low);
      const floor = axis.zero && low >= 0;
      return [floor ? 0 : low - room, high + room];
    }

    draw() {
      this.width = this.plot.clientWidth;
      if (!this.width) return;
      const { x, y, title } = this.spec;
      const height = this.spec.square ? Math.min(this.width, 400) : Math.min(Math.max(this.width * this.spec.ratio, 240), 400);
      const domains = { x: this.domain("x"), y: this.domain("y") };
      const yTicks = ticks(y, ...domains.y, Math.max(2, Math.round(height / 55)));
      const longest = Math.max(1, ...yTicks.map((tick) => Math.min(tick.text.length, 14)));
      const left = 24 + 6.4 * longest, right = 12, top = 8, bottom = 42;
      const box = { left, top, width: Math.max(20, this.width - left - right), height: height - top - bottom };
      const along = (domain, start, length) => (value) => Math.round((start + ((value - domain[0]) / (domain[1] - domain[0])) * length) * 10) / 10;
      const ends = [left, left + box.width];
      this.scale = { x: along(domains.x, left, box.width), y: along(domains.y, top + box.height, -box.height), ends, bottom: top + box.height };
      this.box = box;
      this.domains = domains;
      const focused = this.svg && document.activeElement === this.svg;
      const svg = shape("svg", null, { viewBox: `0 0 ${this.width} ${height}`, height, role: "img", tabindex: 0, "aria-label": this.spec.alt || title });
      this.svg?.remove();
      this.plot.prepend(svg);
      this.svg = svg;
      const xTicks = ticks(x, ...domains.x, Math.max(2, Math.floor(box.width / (x.levels || x.time ? 78 : 62))));
      for (const tick of yTicks) {
        const at = this.scale.y(tick.at);
        shape("line", svg, { x1: left, x2: left + box.width, y1: at, y2: at, class: "grid-line" });
        shape("text", svg, { x: left - 6, y: at + 4, "text-anchor": "end" }, cut(tick.text, 14));
      }
      const room = Math.max(3, Math.floor(box.width / Math.max(1, xTicks.length) / 6.5));
      for (const tick of xTicks) {
        const at = this.scale.x(tick.at);
        shape("line", svg, { x1: at, x2: at, y1: top, y2: top + box.height, class: "grid-line" });
        const text = cut(tick.text, room);
        const beyond = at + 3.2 * text.length > this.width;
        shape("text", svg, { x: beyond ? this.width : at, y: top + box.height + 15, "text-anchor": beyond ? "end" : "middle" }, text);
      }
      const middle = Math.max(top + box.height / 2, Math.min(y.label.length * 3.4, height / 2) + 4);
      shape("text", svg, { x: left + box.width / 2, y: height - 6, "text-anchor": "middle", class: "label" }, cut(x.label, Math.floor(box.width / 7)));
      shape("text", svg, { x: 11, y: middle, transform: `rotate(-90 11 ${middle})`, "text-anchor": "middle", class: "label" }, cut(y.label, Math.floor((height - 16) / 7)));
      const frame = shape("svg", svg, { x: 0, y: 0, width: this.width, height });
      const id = `clip-${CHARTS.indexOf(this)}`;
      const clip = shape("clipPath", shape("defs", frame, {}), { id });
      shape("rect", clip, { x: left, y: top, width: box.width, height: box.height });
      const inside = shape("g", frame, { "clip-path": `url(#${id})` });
      for (const layer of this.shown()) LAYERS[layer.kind].draw(layer, this.scale, inside);
      shape("path", svg, { d: `M${left} ${top}V${top + box.height}H${left + box.width}`, class: "axis" });
      this.front = shape("g", frame, { "clip-path": `url(#${id})` });
      this.listen(svg);
      if (focused) svg.focus({ preventScroll: true });
    }

    listen(svg) {
      let start = null, mark = null;
      const place = (event) => {
        const rectangle = svg.getBoundingClientRect();
        return [event.clientX - rectangle.left, event.clientY - rectangle.top];
      };
      svg.addEventListener("pointerdown", (event) => {
        if (event.pointerType === "touch" || event.button) return this.hover(event, ...place(event));
        start = place(event);
        svg.setPointerCapture(event.pointerId);
      });
      svg.addEventListener("pointermove", (event) => {
        const now = place(event);
        if (!start) return this.hover(event, ...now);
        mark ??= shape("rect", this.front, { class: "drag" });
        const corner = [0, 1].map((at) => Math.min(start[at], now[at]));
        const size = [0, 1].map((at) => Math.abs(start[at] - now[at]));
        for (const [name, value] of Object.entries({ x: corner[0], y: corner[1], width: size[0], height: size[1] })) mark.setAttribute(name, value);
        this.leave();
      });
      svg.addEventListener("pointerup", (event) => {
        if (!start) return;
        const now = place(event), from = start;
        start = null;
        mark?.remove();
        mark = null;
        const spans = [Math.abs(now[0] - from[0]), Math.abs(now[1] - from[1])];
        if (Math.max(...spans) < 8) return;
        const ends = (side, at) => {
          if (spans[at] < 8) return this.domains[side];
          return [from[at], now[at]].map((pixel) => this.value(side, pixel)).sort((a, b) => a - b);
        };
        this.zoom({ x: ends("x", 0), y: ends("y", 1) });
      });
      svg.addEventListener("pointercancel", () => { start = null; mark?.remove(); mark = null; });
      svg.addEventListener("dblclick", () => this.zoom(null));
      svg.addEventListener("keydown", (event) => this.press(event));
    }

    value(side, pixel) {
      const [low, high] = this.domains[side], { left, top, width, height } = this.box;
      const share = side === "x" ? (pixel - left) / width : (top + height - pixel) / height;
      return low + Math.min(Math.max(share, 0), 1) * (high - low);
    }

    zoom(view) {
      this.view = view;
      this.reset.hidden = !view;
      this.leave();
      this.draw();
    }

    press(event) {
      const moves = { "+": [0, 0, 0.7], "=": [0, 0, 0.7], "-": [0, 0, 1 / 0.7], ArrowLeft: [-0.15, 0, 1], ArrowRight: [0.15, 0, 1], ArrowUp: [0, 0.15, 1], ArrowDown: [0, -0.15, 1] };
      if (event.key === "0" || event.key === "Escape") this.zoom(null);
      else if (event.key in moves && (this.view || event.key === "+" || event.key === "=")) {
        const [right, up, factor] = moves[event.key];
        const moved = ([low, high], shift) => {
          const middle = (low + high) / 2 + shift * (high - low), half = (factor * (high - low)) / 2;
          return [middle - half, middle + half];
        };
        this.zoom({ x: moved(this.domains.x, right), y: moved(this.domains.y, up) });
      } else return;
      event.preventDefault();
    }

    leave() {
      tip.hidden = true;
      for (const mark of all(".ring, .cross", this.front)) mark.remove();
    }

    hover(event, pixelX, pixelY) {
      this.leave();
      const { left, top, width, height } = this.box;
      if (pixelX < left - 4 || pixelX > left + width + 4 || pixelY < top - 4 || pixelY > top + height + 4) return;
      const lines = this.nearestPoint(pixelX, pixelY) ?? this.cell(pixelX, pixelY) ?? this.column(pixelX);
      if (lines?.length) showTip(lines, event.clientX, event.clientY);
    }

    nearestPoint(pixelX, pixelY) {
      let best = null, least = 20 ** 2;
      for (const layer of this.shown()) {
        if (layer.kind !== "points") continue;
        for (let at = 0; at < layer.x.length; at += 1) {
          if (!isNumber(layer.x[at]) || !isNumber(layer.y[at])) continue;
          const distance = (this.scale.x(layer.x[at]) - pixelX) ** 2 + (this.scale.y(layer.y[at]) - pixelY) ** 2;
          if (distance < least) [least, best] = [distance, [layer, at]];
        }
      }
      if (!best) return null;
      const [layer, at] = best;
      shape("circle", this.front, { cx: this.scale.x(layer.x[at]), cy: this.scale.y(layer.y[at]), r: 5, class: "ring" });
      const lines = layer.numbers ? [["row", String(layer.numbers[at])]] : [];
      lines.push([this.spec.x.label, axisText(this.spec.x, layer.x[at])], [this.spec.y.label, axisText(this.spec.y, layer.y[at])]);
      for (const [name, list] of Object.entries(layer.more ?? {})) lines.push([name, digits(values(list)[at])]);
      return lines;
    }

    cell(pixelX, pixelY) {
      const heat = this.shown().find((layer) => layer.kind === "heat");
      if (!heat) return null;
      const x = this.value("x", pixelX), y = this.value("y", pixelY);
      const column = Math.floor(((x - heat.x[0]) / (heat.x[1] - heat.x[0])) * heat.columns);
      const row = Math.floor(((y - heat.y[0]) / (heat.y[1] - heat.y[0])) * heat.rows);
      if (column < 0 || row < 0 || column >= heat.columns || row >= heat.rows) return null;
      return [[this.spec.x.label, digits(x)], [this.spec.y.label, digits(y)], [heat.name, digits(heat.values[row * heat.columns + column])]];
    }

    column(pixelX) {
      const x = this.value("x", pixelX);
      const curves = this.shown().filter((layer) => ["line", "band", "spans"].includes(layer.kind) && !layer.rule && layer.x.length);
      const boxes = this.shown().filter((layer) => layer.kind === "boxes");
      if (boxes.length) {
        const { edges, y } = boxes[0];
        const at = Math.min(y.length - 1, edges.findIndex((edge) => edge > x) - 1);
        if (at < 0) return null;
        return [[this.spec.x.label, `${digits(edges[at], 3)} to ${digits(edges[at + 1], 3)}`], ...boxes.map((layer) => [layer.name || this.spec.y.label, digits(layer.y[at])])];
      }
      if (!curves.length) return null;
      const nearest = (list) => {
        let low = 0;
        for (let at = 1; at < list.length; at += 1) if (Math.abs(list[at] - x) < Math.abs(list[low] - x)) low = at;
        return low;
      };
      const shownX = curves[0].x[nearest(curves[0].x)], pixel = this.scale.x(shownX);
      shape("line", this.front, { x1: pixel, x2: pixel, y1: this.box.top, y2: this.box.top + this.box.height, class: "cross" });
      const lines = [[this.spec.x.label, axisText(this.spec.x, shownX)]];
      for (const layer of curves.slice(0, 12)) {
        const at = nearest(layer.x);
        const text = layer.kind === "line" ? digits(layer.y[at]) : `${digits(layer.lower[at])}, ${digits(layer.upper[at])}`;
        lines.push([layer.name || (layer.kind === "line" ? this.spec.y.label : "from, to"), text]);
      }
      return lines;
    }
  }

  // Choices hide all charts but one, which spares the others from being drawn.

  const CHARTS = [];
  for (const choice of all(".choice")) {
    const options = all(":scope > .option", choice), select = choice.querySelector("select");
    const show = () => options.forEach((option, at) => { option.hidden = at !== select.selectedIndex; });
    select.addEventListener("change", () => {
      show();
      for (const chart of CHARTS) if (options[select.selectedIndex].contains(chart.figure)) chart.draw();
    });
    show();
  }
  for (const figure of all("figure.chart")) CHARTS.push(new Chart(figure));
  for (const chart of CHARTS) chart.draw();
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // Bars, tables and themes

  for (const fill of all(".fill[data-share]")) fill.style.width = `${100 * fill.dataset.share}%`;
  for (const whisker of all(".whisker[data-from]")) {
    whisker.style.left = `${100 * whisker.dataset.from}%`;
    whisker.style.width = `${100 * (whisker.dataset.to - whisker.dataset.from)}%`;
  }

  function compare(one, other) {
    const [a, b] = [one, other].map((text) => (text === "" ? NaN : Number(text.replace(/−/g, "-").replace(/,/g, ""))));
    if (!Number.isNaN(a) && !Number.isNaN(b)) return a - b;
    return one.localeCompare(other, "en", { numeric: true });
  }

  for (const table of all("table.sortable")) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const each of heads) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const text = (row) => row.cells[at].textContent;
        const rows = [...body.rows].sort((a, b) => {
          if (!text(a) || !text(b)) return Number(!text(a)) - Number(!text(b));
          return (down ? -1 : 1) * compare(text(a), text(b));
        });
        body.append(...rows);
      });
    });
  }

  const themes = all(".themes button");
  const setTheme = (name) => {
    document.documentElement.dataset.theme = name;
    for (const button of themes) button.setAttribute("aria-pressed", String(button.value === name));
  };
  for (const button of themes) {
    button.addEventListener("click", () => {
      setTheme(button.value);
      try { localStorage.setItem("sswim-theme", button.value); } catch { /* a page without storage forgets it */ }
    });
  }
  let kept = null;
  try { kept = localStorage.getItem("sswim-theme"); } catch { /* the system decides */ }
  if (["light", "dark"].includes(kept)) setTheme(kept);
})();
