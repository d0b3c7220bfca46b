package journal

import "testing"

// A size is exact where few digits are, and says so where they are not.
func TestPrintedSizes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 812: "812", 9999: "9999", 24 << 10: "24Ki", 10000: "about 9.77Ki", 1536 << 20: "1536Mi",
		16 << 30: "16Gi", 3 << 40: "3Ti",
		2899102924: "about 2.7Gi", 16373544 << 10: "about 15.6Gi", 104857599: "about 100Mi", 332 << 20: "332Mi",
		332<<20 + 1: "about 332Mi",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
