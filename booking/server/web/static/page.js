// What htmx cannot do: arrow keys in a row of days, countdowns, forms that are sent only once, marks on wrong fields.
"use strict";

{
  const root = document.documentElement;
  root.classList.add("js");

  const MOVES = { ArrowLeft: -1, ArrowRight: 1, PageUp: -7, PageDown: 7 };

  // A row of days is one stop of the Tab key; arrow keys move within it, and up and down to other models.
  const stopOnce = (row) => {
    [...row.children].forEach((day, place) => { day.tabIndex = place === 0 ? 0 : -1; });
  };

  const focusOn = (day) => {
    [...day.parentElement.children].forEach((each) => { each.tabIndex = each === day ? 0 : -1; });
    day.focus();
  };

  const neighbour = (day, key) => {
    const days = [...day.parentElement.children];
    const place = days.indexOf(day);
    if (key in MOVES) return days[Math.max(0, Math.min(days.length - 1, place + MOVES[key]))];
    if (key === "Home") return days[0];
    if (key === "End") return days[days.length - 1];
    const rows = [...document.querySelectorAll(".cells.days")];
    const row = rows[rows.indexOf(day.parentElement) + (key === "ArrowDown" ? 1 : -1)];
    return row && row.children[place];
  };

  document.addEventListener("keydown", (event) => {
    const day = event.target.closest && event.target.closest(".cells.days > a");
    const known = event.key in MOVES || ["Home", "End", "ArrowUp", "ArrowDown"].includes(event.key);
    if (!day || !known || event.ctrlKey || event.altKey || event.metaKey) return;
    const next = neighbour(day, event.key);
    if (next) focusOn(next);
    event.preventDefault();
  });

  // The same words as coarse() in booking/server/web/pages/site_clock.py.
  const coarse = (seconds) => {
    const minutes = Math.floor(seconds / 60);
    const days = Math.floor(minutes / 1440);
    const hours = Math.floor(minutes / 60) % 24;
    if (minutes < 1) return "less than a minute";
    if (days) return `${days} ${days === 1 ? "day" : "days"}${hours ? ` ${hours} h` : ""}`;
    if (hours) return `${hours} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
    return `${minutes} min`;
  };

  // Counted from what the server wrote, not from this machine's clock, which may be wrong.
  const begin = performance.now();
  const countDown = () => {
    document.querySelectorAll("time[data-countdown]").forEach((each) => {
      const left = Number(each.dataset.countdown) - (performance.now() - begin) / 1000;
      if (left > 0) each.textContent = coarse(left);
      else each.closest("p").textContent = each.dataset.over;
    });
  };

  const markWrong = () => {
    document.querySelectorAll("#book .error").forEach((sentence) => {
      document.querySelectorAll(`[aria-describedby="${sentence.id}"]`).forEach((field) => {
        if (sentence.textContent.trim()) field.setAttribute("aria-invalid", "true");
        else field.removeAttribute("aria-invalid");
      });
    });
  };

  document.addEventListener("htmx:after:swap", markWrong);

  // The last answer may be wrong by now, and nothing else would show that.
  document.addEventListener("htmx:error", (event) => {
    const answer = event.target.querySelector && event.target.querySelector(".answer");
    const warning = document.createElement("p");
    warning.className = "verdict bad";
    warning.textContent = "The booking server does not answer. What you have typed has not been checked.";
    if (answer) answer.replaceChildren(warning);
  });

  // A second click sends nothing; a user who comes back to the page may send again.
  document.addEventListener("submit", (event) => {
    if ("sent" in event.target.dataset) event.preventDefault();
    else event.target.dataset.sent = "yes";
  });
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("form[data-sent]").forEach((form) => { delete form.dataset.sent; });
  });

  // The form was filled from the graphic or from a slot: go there.
  document.addEventListener("click", (event) => {
    const filler = event.target.closest && event.target.closest('[hx-target="#book"]');
    if (filler) root.dataset.filling = "yes";
  });
  document.addEventListener("htmx:after:settle", () => {
    if (!("filling" in root.dataset)) return;
    delete root.dataset.filling;
    const form = document.getElementById("book");
    form.scrollIntoView({ block: "nearest" });
    form.querySelector("#start").focus({ preventScroll: true });
  });

  // A form that was kept while its user signed in again.
  document.querySelectorAll("form[data-send]").forEach((form) => { form.requestSubmit(); });

  document.querySelectorAll(".cells.days").forEach(stopOnce);
  if (document.querySelector("time[data-countdown]")) setInterval(countDown, 15000);
}
