// Runs before the first paint, so that no other theme flashes up; theme.js owns the choice.
try {
  document.documentElement.dataset.theme = localStorage.getItem("headrace.theme") || "system";
} catch {
  document.documentElement.dataset.theme = "system"; // storage is forbidden
}
