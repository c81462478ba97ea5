// The bar keeps up with the simulation, and a page that is loaded again stays where it was.
"use strict";

{
  const EVERY = 1500;
  const PLACE = "gpu-booking-demo-place";
  const bar = document.getElementById("demo-bar");
  let number = -1;
  let wasLeaping = false;

  const show = (state) => {
    document.getElementById("demo-time").textContent = state.now;
    if (state.number !== number) {
      number = state.number;
      document.getElementById("demo-feed").innerHTML = state.newest;
      document.getElementById("demo-all").innerHTML = state.all;
    }
    if (wasLeaping && !state.leaping) location.reload();
    wasLeaping = state.leaping;
  };

  const ask = async () => {
    try {
      const answer = await fetch("/demo/state", { headers: { Accept: "application/json" } });
      if (answer.ok) show(await answer.json());
    } catch {
      document.getElementById("demo-time").textContent = "The demo has ended.";
      return;
    }
    setTimeout(ask, wasLeaping ? EVERY / 5 : EVERY);
  };

  bar.addEventListener("submit", () => {
    sessionStorage.setItem(PLACE, JSON.stringify([location.pathname, scrollY]));
  });
  const [page, place] = JSON.parse(sessionStorage.getItem(PLACE) || "[]");
  sessionStorage.removeItem(PLACE);
  if (page === location.pathname && location.hash === "") scrollTo(0, place);
  ask();
}
