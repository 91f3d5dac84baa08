const COLUMNS = { name: (room) => room.name, price: (room) => room["getPrice"]() };

export function report(rooms) {
  return rooms.map((room) => Object.values(COLUMNS).map((column) => column(room)).join(" ")).join("\n");
}
