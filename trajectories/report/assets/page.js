(function () {
  "use strict";
  var overview = document.getElementById("overview");
  var viewer = document.getElementById("viewer");
  var matrix = document.getElementById("matrix");

  // --- The matrix: find, choose, sort.
  if (matrix) {
    var body = matrix.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    var filter = document.getElementById("filter");
    var state = document.getElementById("state");
    var shown = document.getElementById("shown");
    var apply = function () {
      var words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      var count = 0;
      rows.forEach(function (row) {
        var d = row.dataset;
        var text = (d.item + " " + d.category + " " + d.difficulty).toLowerCase();
        var fits = words.every(function (w) { return text.indexOf(w) >= 0; }) && (!state.value || d.state === state.value || (d.tags || "").split(" ").indexOf(state.value) >= 0);
        row.hidden = !fits;
        if (fits) count++;
      });
      shown.textContent = count === rows.length ? "" : count + " of " + rows.length;
    };
    filter.addEventListener("input", apply);
    state.addEventListener("change", apply);
    var numeric = { step: 1, mean: 1, passed: 1, turns: 1, seconds: 1 };
    Array.prototype.forEach.call(matrix.tHead.querySelectorAll("button"), function (button) {
      button.addEventListener("click", function () {
        var th = button.parentNode, key = button.dataset.key;
        var was = th.getAttribute("aria-sort");
        Array.prototype.forEach.call(matrix.tHead.querySelectorAll("th"), function (h) { h.removeAttribute("aria-sort"); });
        var sign = 1;
        if (was === "ascending") { sign = -1; th.setAttribute("aria-sort", "descending"); }
        else if (was === "descending") { key = "order"; }
        else { th.setAttribute("aria-sort", "ascending"); }
        rows.sort(function (a, b) {
          var x = a.dataset[key], y = b.dataset[key];
          var c = numeric[key] || key === "order" ? x - y : x < y ? -1 : x > y ? 1 : 0;
          return sign * c || a.dataset.order - b.dataset.order;
        });
        rows.forEach(function (row) { body.appendChild(row); });
      });
    });
  }
  if (!viewer) return;

  // --- Transcripts. All text goes through textContent; nothing here is ever HTML.
  var count = Number(viewer.dataset.count);
  var source = viewer.dataset.source;
  var place = 0;

  function node(tag, className, text) {
    var n = document.createElement(tag);
    if (className) n.className = className;
    if (text !== undefined) n.textContent = text;
    return n;
  }

  async function unpack(number) {
    var holder = document.getElementById("d" + number);
    var raw = Uint8Array.from(atob(holder.textContent.trim()), function (c) { return c.charCodeAt(0); });
    if (typeof DecompressionStream === "undefined") throw new Error("this browser can't unpack the transcript (it lacks DecompressionStream)");
    var stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return JSON.parse(await new Response(stream).text());
  }

  // A text, folded when it is long. Its middle may have been left out of the page.
  function text(clip, fold) {
    var box = node("div");
    var cut = clip.left ? "… " + clip.left.toLocaleString("en") + " characters left out here; the whole text is in " + source + " …" : "";
    var all = function () {
      box.textContent = "";
      box.appendChild(node("pre", "", clip.head));
      if (clip.left) {
        box.appendChild(node("span", "cut", cut));
        box.appendChild(node("pre", "", clip.tail || ""));
      }
    };
    var lines = clip.head.split("\n");
    var total = clip.head.length + (clip.tail || "").length + (clip.left || 0);
    if (!fold || (clip.head.length <= 1600 && lines.length <= 24 && !clip.left)) { all(); return box; }
    var start = lines.slice(0, 16).join("\n").slice(0, 1200);
    box.appendChild(node("pre", "", start + " …"));
    var more = node("button", "more", "show all " + total.toLocaleString("en") + " characters");
    more.type = "button";
    more.addEventListener("click", all);
    box.appendChild(more);
    return box;
  }

  function argumentsText(raw) {
    if (raw.left) return { clip: raw };
    try {
      var value = JSON.parse(raw.head);
      var keys = value && typeof value === "object" && !Array.isArray(value) ? Object.keys(value) : null;
      if (keys && keys.length === 1 && typeof value[keys[0]] === "string") return { label: keys[0], clip: { head: value[keys[0]] } };
      return { clip: { head: JSON.stringify(value, null, 2) } };
    } catch (e) {
      return { clip: raw, invalid: true };
    }
  }

  function renderMessage(m) {
    var box = node("article", "msg " + m.role + (m.failed ? " bad" : ""));
    var who = node("div", "who");
    who.appendChild(node("b", "", m.role));
    if (m.tool) who.appendChild(node("span", "", "answer of " + m.tool + (m.failed ? ", failed" : "")));
    if (m.note) who.appendChild(node("span", "", m.note));
    if (m.n) who.appendChild(node("span", "", "#" + m.n));
    box.appendChild(who);
    if (m.reasoning) {
      var think = node("details", "think");
      think.appendChild(node("summary", "", "reasoning, " + (m.reasoning.head.length + (m.reasoning.left || 0) + (m.reasoning.tail || "").length).toLocaleString("en") + " characters"));
      var inner = node("div", "body");
      inner.appendChild(text(m.reasoning, false));
      think.appendChild(inner);
      box.appendChild(think);
    }
    if (m.text) {
      var content = node("div", "body");
      content.appendChild(text(m.text, m.role !== "user" && m.role !== "assistant"));
      box.appendChild(content);
    }
    (m.calls || []).forEach(function (c) {
      var call = node("div", "call");
      var args = c.arguments ? argumentsText(c.arguments) : { clip: { head: "" } };
      call.appendChild(node("div", "name", c.name + (args.label ? " · " + args.label : "") + (args.invalid ? " · arguments that are no JSON" : "")));
      if (args.clip.head) call.appendChild(text(args.clip, true));
      box.appendChild(call);
    });
    return box;
  }

  function link(label, number) {
    var a = node("a", "", label);
    if (number < 0 || number >= count) { a = node("span", "note", label); } else { a.href = "#t" + number; }
    return a;
  }

  // What the agent did to its verification, as a box above the conversation.
  function tampering(t) {
    var list = t.tampering || [];
    if (list.length === 0) return null;
    var active = list.some(function (e) { return e.active; });
    var box = node("div", "warnings");
    box.appendChild(node("b", "", active ? "The agent tampered with the verification" : "Noted, without effect on the verification"));
    var entries = node("ul");
    list.forEach(function (e) {
      var item = node("li");
      item.appendChild(node(e.active ? "b" : "span", "", e.kind));
      item.appendChild(document.createTextNode(" " + e.text + (active && !e.active ? " (noted only)" : "")));
      entries.appendChild(item);
    });
    box.appendChild(entries);
    return box;
  }

  async function open(number) {
    var t;
    viewer.textContent = "";
    var nav = node("nav");
    var back = node("a", "", "← all items (Esc)");
    back.href = "#";
    nav.appendChild(back);
    nav.appendChild(link("previous (k)", number - 1));
    nav.appendChild(link("next (j)", number + 1));
    viewer.appendChild(nav);
    try {
      t = await unpack(number);
    } catch (e) {
      viewer.appendChild(node("p", "warnings", "The transcript can't be shown: " + e.message));
      return;
    }
    if (current() !== number) return;
    nav.appendChild(badge(t));
    viewer.appendChild(node("h1", "", t.item + " · attempt " + t.attempt));
    if (t.error) {
      var error = node("div", "warnings");
      error.appendChild(text(t.error, true));
      viewer.appendChild(error);
    }
    var found = tampering(t);
    if (found) viewer.appendChild(found);
    var facts = node("details");
    facts.appendChild(node("summary", "", t.facts.slice(1, 4).map(function (f) { return f.name + " " + f.value; }).join(" · ")));
    var table = node("table", "facts"), rows = node("tbody");
    t.facts.forEach(function (f) {
      var tr = node("tr");
      var th = node("th", "", f.name);
      th.scope = "row";
      tr.appendChild(th);
      tr.appendChild(node("td", "", f.value));
      rows.appendChild(tr);
    });
    table.appendChild(rows);
    facts.appendChild(table);
    viewer.appendChild(facts);
    if (t.messages.length === 0) viewer.appendChild(node("p", "note", "The rollout ended before its first message."));
    t.messages.forEach(function (m, i) {
      if (t.left && i === t.after) viewer.appendChild(node("p", "cut", "… " + t.left + " messages left out here; they are in " + source + ", rollout " + t.id + " …"));
      viewer.appendChild(renderMessage(m));
    });
    document.title = t.item + " · attempt " + t.attempt;
  }

  // The rollouts of a group beside each other: what they have in common once, then a
  // column for each.
  async function compare(numbers) {
    var hash = location.hash;
    viewer.textContent = "";
    var nav = node("nav");
    var back = node("a", "", "← all groups (Esc)");
    back.href = "#";
    nav.appendChild(back);
    viewer.appendChild(nav);
    var members;
    try {
      members = await Promise.all(numbers.map(unpack));
    } catch (e) {
      viewer.appendChild(node("p", "warnings", "The group can't be shown: " + e.message));
      return;
    }
    if (location.hash !== hash) return;
    viewer.appendChild(node("h1", "", members[0].item));
    var texts = members.map(function (t) { return t.messages.map(function (m) { return JSON.stringify(m); }); });
    var common = 0;
    while (texts.every(function (t) { return common < t.length && t[common] === texts[0][common]; })) common++;
    members[0].messages.slice(0, common).forEach(function (m) { viewer.appendChild(renderMessage(m)); });
    var columns = node("div", "compare");
    columns.tabIndex = 0;
    members.forEach(function (t, i) {
      var column = node("section");
      var head = node("h2");
      var whole = node("a", "", "attempt " + t.attempt);
      whole.href = "#t" + numbers[i];
      head.appendChild(whole);
      head.appendChild(badge(t));
      column.appendChild(head);
      if (t.error) {
        var error = node("div", "warnings");
        error.appendChild(text(t.error, true));
        column.appendChild(error);
      }
      var found = tampering(t);
      if (found) column.appendChild(found);
      t.messages.slice(common).forEach(function (m, n) {
        if (t.left && n + common === t.after) column.appendChild(node("p", "cut", "… " + t.left + " messages left out here …"));
        column.appendChild(renderMessage(m));
      });
      columns.appendChild(column);
    });
    viewer.appendChild(columns);
    document.title = members[0].item;
  }

  function badge(t) {
    var kind = t.score === null ? "o-" + t.class : t.passed === true ? "pass" : t.score > 0 ? "part" : "fail";
    return node("span", "badge " + kind, (t.score === null ? "no score" : "score " + Math.round(t.score * 1000) / 1000) + " · " + t.outcome);
  }

  var title = document.title;
  function current() {
    var m = /^#t(\d+)$/.exec(location.hash);
    return m && Number(m[1]) < count ? Number(m[1]) : -1;
  }
  function currentGroup() {
    var m = /^#g(\d+(?:,\d+)*)$/.exec(location.hash);
    var numbers = m ? m[1].split(",").map(Number) : [];
    return numbers.every(function (n) { return n < count; }) ? numbers : [];
  }
  function route() {
    var number = current(), group = currentGroup();
    if (number < 0 && group.length === 0) {
      if (!overview.hidden) return; // a link within the page
      viewer.hidden = true;
      viewer.textContent = "";
      overview.hidden = false;
      document.title = title;
      window.scrollTo(0, place);
      return;
    }
    if (!overview.hidden) place = window.scrollY;
    overview.hidden = true;
    viewer.hidden = false;
    window.scrollTo(0, 0);
    if (group.length > 0) compare(group); else open(number);
  }
  window.addEventListener("hashchange", route);
  document.addEventListener("keydown", function (e) {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    var number = current();
    if (currentGroup().length > 0 && e.key === "Escape") location.hash = "#";
    if (number < 0) return;
    if (e.key === "Escape") location.hash = "#";
    if ((e.key === "j" || e.key === "ArrowRight") && number + 1 < count) location.hash = "#t" + (number + 1);
    if ((e.key === "k" || e.key === "ArrowLeft") && number > 0) location.hash = "#t" + (number - 1);
  });
  route();
})();
