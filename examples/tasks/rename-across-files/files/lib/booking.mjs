import { Room } from "./rooms.mjs";

/** What a stay costs, by getPrice of each room. */
export function total(rooms, nights) {
  return rooms.reduce((sum, room) => sum + room.getPrice() * nights, 0);
}

export const cheapest = (rooms) => [...rooms].sort((a, b) => a.getPrice() - b.getPrice())[0];

export const suite = new Room("suite", 200);
