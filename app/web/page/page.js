// SPDX-License-Identifier: Apache-2.0
//
// Keeps the page up to date: the server sends the sections that have changed, once a second, as HTML that it has escaped.
"use strict";

const silence = 5000; // milliseconds without news, after which the page must not pass for live
const live = document.getElementById("live");
let source = null, heard = 0;

// morph makes old look like now and changes as little as possible: selected text stays selected, and animations go on.
function morph(old, now) {
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) {
    old.replaceWith(now);
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== now.data) old.data = now.data;
  } else {
    for (const a of [...old.attributes]) if (!now.hasAttribute(a.name)) old.removeAttribute(a.name);
    for (const a of now.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    morphChildren(old, now);
  }
}

function morphChildren(old, now) {
  const have = [...old.childNodes], want = [...now.childNodes];
  want.forEach((w, i) => i < have.length ? morph(have[i], w) : old.append(w));
  have.slice(want.length).forEach(h => h.remove());
}

function show(news) {
  if (news.started !== document.documentElement.dataset.started) {
    location.reload(); // another bridge, perhaps with another page
    return;
  }
  for (const [id, html] of Object.entries(news.sections)) {
    const t = document.createElement("template");
    t.innerHTML = html;
    morphChildren(document.getElementById(id), t.content);
  }
}

function state(isLive, text) {
  document.body.classList.toggle("stale", !isLive);
  if (live.textContent !== text) live.textContent = text;
}

function open() {
  source = new EventSource("events");
  heard = Date.now();
  source.onmessage = e => {
    heard = Date.now();
    show(JSON.parse(e.data));
    state(true, "live");
  };
  source.onerror = () => {
    state(false, "not live: no connection, or too many listen; trying again");
    if (source.readyState === EventSource.CLOSED) close(); // refused: the browser does not try again
  };
}

function close() {
  source?.close();
  source = null;
}

// Nobody looks at a hidden page. It is brought up to date when it is shown again.
function check() {
  if (document.hidden) close();
  else if (source === null) open();
  else if (Date.now() - heard > silence) state(false, "not live: no news since " + new Date(heard).toLocaleTimeString());
}

document.addEventListener("visibilitychange", check);
setInterval(check, silence);
check();
