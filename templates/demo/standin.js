// Keeps the part of the page that others change up to date, without touching what the visitor is writing.
const live = document.getElementById("live");
async function look() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (fresh && fresh.innerHTML !== last) {
      last = fresh.innerHTML;
      live.innerHTML = fresh.innerHTML;
    }
  } catch {
    // The demo has ended, or is busy; the next look tells.
  }
}
let last = live ? live.innerHTML : "";
if (live) setInterval(look, 2000);
