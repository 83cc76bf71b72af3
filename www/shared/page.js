// Page chrome: bytes for people, and elements by name.

/** Returns bytes as a person reads them. */
export function bytes(count) {
  if (count === Infinity) return "no bound";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let value = count;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  const digits = value < 10 && at > 0 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[at]}`;
}

/** Returns the element of an id. */
export function element(id) {
  return document.getElementById(id);
}

/** Returns the value of a colour of the page. */
export function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
