// @ts-check
/** Keeps the newest text in view while the reader is at the end, and never takes the page away. */

const NEAR_PIXELS = 48;

export class EndFollower {
  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} button leads back to the end
   */
  constructor(scroller, button) {
    this._scroller = scroller;
    this._button = button;
    this._follows = true;
    scroller.addEventListener("scroll", () => this._notice(), { passive: true });
    new ResizeObserver(() => this.follow()).observe(scroller);
    button.addEventListener("click", () => {
      this.goToEnd();
      scroller.focus({ preventScroll: true });
    });
  }

  /** Goes to the end if that is where the reader was. */
  follow() {
    if (this._follows) this.goToEnd();
    else this._notice();
  }

  goToEnd() {
    this._scroller.scrollTop = this._scroller.scrollHeight;
    this._notice();
  }

  _notice() {
    const { scrollTop, scrollHeight, clientHeight } = this._scroller;
    this._follows = scrollHeight - scrollTop - clientHeight <= NEAR_PIXELS;
    this._button.hidden = this._follows;
  }
}
