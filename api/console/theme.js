/** Light or dark: as the system has it, or as was chosen on this computer. */

import { emit } from "./session.js";

const CHOSEN = "prosem-theme";
const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");

function paint() {
  const chosen = localStorage.getItem(CHOSEN);
  const isDark = chosen ? chosen === "dark" : system.matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  button.textContent = isDark ? "Light" : "Dark";
  emit("theme");
}

export function toggleTheme() {
  const isDark = document.documentElement.dataset.theme === "dark";
  localStorage.setItem(CHOSEN, isDark ? "light" : "dark");
  paint();
}

button.addEventListener("click", toggleTheme);
system.addEventListener("change", paint);
paint();
