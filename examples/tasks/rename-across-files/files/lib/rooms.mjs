/** A room that can be booked. getPrice() is per night. */
export class Room {
  constructor(name, price) {
    this.name = name;
    this.price = price;
  }

  getPrice() {
    return this.price;
  }

  getPriceWithTax(rate) {
    return this.getPrice() * (1 + rate);
  }
}
