package noderole

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/tools/record"
)

// A node with swap, whose kernel cannot keep a tmpfs out of it, says so in an event.
func TestVolumesInMemoryThatMayBeSwapped(t *testing.T) {
	const warning = "Warning PossibleMemoryBackedVolumesOnDisk The tmpfs noswap option is not supported."
	for name, c := range map[string]struct {
		swap uint64
		kept bool
		err  error
		want string
	}{
		"no swap":                        {0, false, nil, ""},
		"the kernel keeps it out":        {1 << 30, true, nil, ""},
		"the kernel cannot":              {1 << 30, false, nil, warning},
		"nobody knows: no right to look": {1 << 30, false, errors.New("operation not permitted"), ""},
	} {
		events := record.NewFakeRecorder(2)
		warnOfSwap(c.swap, func() (bool, error) { return c.kept, c.err }, events, "n1")
		got := ""
		select {
		case got = <-events.Events:
		default:
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got event %q, want %q", name, got, c.want)
		}
	}
}
