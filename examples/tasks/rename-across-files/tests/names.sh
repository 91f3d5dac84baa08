#!/bin/bash
# The old name is gone, the new one stands in its place, and the other method is still there.
set -euo pipefail

# None is an answer; a search that failed is not, and neither is a file that does not look like text.
count() { { grep -raow --exclude-dir=.git "$1" lib docs || [ $? = 1 ]; } | wc -l; }

old=$(count getPrice)
new=$(count nightlyPrice)
other=$(count getPriceWithTax)
[ "$old" = 0 ] || { grep -ranw --exclude-dir=.git getPrice lib docs; exit 1; }
[ "$new" = 9 ] || { echo "nightlyPrice stands $new times, not 9"; exit 1; }
[ "$other" = 2 ] || { echo "getPriceWithTax was touched"; exit 1; }
