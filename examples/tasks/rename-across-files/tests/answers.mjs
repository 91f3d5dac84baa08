const lib = `${process.env.HOME}/workdir/lib`;
const { Room } = await import(`${lib}/rooms.mjs`);
const { cheapest, suite, total } = await import(`${lib}/booking.mjs`);
const { report } = await import(`${lib}/report.mjs`);

const rooms = [suite, new Room("attic", 80)];
console.log(
  JSON.stringify([
    suite.nightlyPrice(),
    suite.getPriceWithTax(0.5),
    typeof suite.getPrice,
    total(rooms, 3),
    cheapest(rooms).name,
    report(rooms),
  ]),
);
