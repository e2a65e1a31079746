// @ts-check
/** Markdown as elements. Nothing in it can run, load anything, or look like the page. */

import { Marked } from "../vendor/marked.esm.js";
import DOMPurify from "../vendor/purify.es.mjs";

const ALLOWED = {
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li",
    "ol", "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["align", "class", "href", "start", "title"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ADD_URI_SAFE_ATTR: ["align", "start"], // others are held against the expression above
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

const marked = new Marked({
  gfm: true,
  renderer: {
    // HTML in an answer is something to read.
    html: (/** @type {any} */ { text }) => escape(text),
    // A picture would tell another server that the answer is being read.
    image: (/** @type {any} */ { href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
    checkbox: (/** @type {any} */ { checked }) => (checked ? "☑ " : "☐ "),
  },
});

/**
 * @typedef {object} Block a paragraph, a list, a block of code, …
 * @property {string} source
 * @property {() => DocumentFragment} render
 */

/**
 * @param {string} text
 * @returns {Block[]} in their order
 */
export function readBlocks(text) {
  const tokens = marked.lexer(text);
  const { links } = /** @type {any} */ (tokens);
  const shown = tokens.filter((/** @type {any} */ token) => token.type !== "space");
  return shown.map((/** @type {any} */ token) => ({
    source: token.raw,
    render: () => clean(marked.parser(Object.assign([token], { links }))),
  }));
}

/** @param {string} html */
function clean(html) {
  const fragment = /** @type {DocumentFragment} */ (DOMPurify.sanitize(html, ALLOWED));
  for (const styled of fragment.querySelectorAll("[class]:not(code)")) styled.removeAttribute("class");
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  return fragment;
}

/** @param {string} text */
function escape(text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
