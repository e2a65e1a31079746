// @ts-check
/** Makes elements. Text goes in as text, never as markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [settings] properties; those with a dash, and role, are attributes
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function element(tag, settings = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(settings)) {
    if (name === "role" || name.includes("-")) made.setAttribute(name, String(value));
    else Reflect.set(made, name, value);
  }
  made.append(...children);
  return made;
}

/**
 * @param {string} name of a symbol of the page, without `icon-`
 * @returns {SVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/**
 * @param {string} name of the icon
 * @param {string} label for screen readers, and as a tooltip
 * @param {() => void} onClick
 * @returns {HTMLButtonElement}
 */
export function iconButton(name, label, onClick) {
  const settings = { type: "button", className: "icon-button", "aria-label": label, title: label };
  const button = /** @type {HTMLButtonElement} */ (element("button", settings, icon(name)));
  button.addEventListener("click", onClick);
  return button;
}

/**
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id of an element of the page
 * @returns {T}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`The page has no #${id}.`);
  return /** @type {T} */ (found);
}
