package options

import (
	"os"
	"testing"
)

func TestPartAddressesThatWereCutOff(t *testing.T) {
	dir := t.TempDir()
	RecordPartAddress(dir, SchedulerPart, "127.0.0.1:1")
	if got := readPartAddresses(dir)[SchedulerPart]; got != "127.0.0.1:1" {
		t.Errorf("got %q, want what was recorded", got)
	}
	err := os.WriteFile(partAddressesFile(dir), []byte("{"), 0o600)
	if got := readPartAddresses(dir); err != nil || got != nil {
		t.Errorf("got %v of a file that was cut off (%v), want nothing", got, err)
	}
}
