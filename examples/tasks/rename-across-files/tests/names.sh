#!/bin/bash
# The old name is gone, the new one stands in its place, and the other method is still there.
set -u

count() { grep -row --exclude-dir=.git "$1" lib docs | wc -l; }

[ "$(count getPrice)" = 0 ] || { grep -rnw --exclude-dir=.git getPrice lib docs; exit 1; }
[ "$(count nightlyPrice)" = 9 ] || { echo "nightlyPrice stands $(count nightlyPrice) times, not 9"; exit 1; }
[ "$(count getPriceWithTax)" = 2 ] || { echo "getPriceWithTax was touched"; exit 1; }
