/** The map: streets, the box of the subscription, and the drivers in it. */

const BLOCK_M = 500;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function draw(canvas, view, reach, drivers) {
  const scale = canvas.width / view.width;
  const left = view.x - view.width / 2;
  const top = view.y - view.width / 2;
  const at = (x, y) => [(x - left) * scale, (y - top) * scale];
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  streets(pen, canvas.width, left, top, scale);

  pen.strokeStyle = colour("--accent");
  pen.fillStyle = colour("--accent");
  pen.lineWidth = 4;
  pen.setLineDash([14, 10]);
  const [boxX, boxY] = at(view.x - reach, view.y - reach);
  pen.strokeRect(boxX, boxY, 2 * reach * scale, 2 * reach * scale);
  pen.setLineDash([]);
  pen.globalAlpha = 0.07;
  pen.fillRect(boxX, boxY, 2 * reach * scale, 2 * reach * scale);
  pen.globalAlpha = 1;

  for (const { x, y, status } of drivers) {
    pen.fillStyle = colour(status === "free" ? "--free" : "--busy");
    pen.beginPath();
    pen.arc(...at(x, y), 11, 0, 2 * Math.PI);
    pen.fill();
  }
  pen.fillStyle = colour("--accent");
  pen.beginPath();
  pen.arc(...at(view.x, view.y), 16, 0, 2 * Math.PI);
  pen.fill();
  pen.lineWidth = 6;
  pen.strokeStyle = colour("--card");
  pen.stroke();
}

function streets(pen, size, left, top, scale) {
  pen.strokeStyle = colour("--line");
  pen.lineWidth = Math.max(3, 30 * scale);
  for (let street = 0; street <= 10_000; street += BLOCK_M) {
    const [x, y] = [(street - left) * scale, (street - top) * scale];
    const [from, to] = [Math.max(0, -left * scale), Math.min(size, (10_000 - left) * scale)];
    const [above, below] = [Math.max(0, -top * scale), Math.min(size, (10_000 - top) * scale)];
    pen.beginPath();
    pen.moveTo(x, above);
    pen.lineTo(x, below);
    pen.moveTo(from, y);
    pen.lineTo(to, y);
    pen.stroke();
  }
}
