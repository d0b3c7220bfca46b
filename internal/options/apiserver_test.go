package options

import (
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/apiserver"
)

func TestBoundsOfRequestsAndPairsOfFiles(t *testing.T) {
	if got := (&APIServer{maxReadsInFlight: 7}).InFlight(); got != (apiserver.MaxInFlight{NonMutating: 7,
		Mutating: -1}) {
		t.Errorf("a bound of reads alone: %+v, want %v", got, (apiserver.MaxInFlight{NonMutating: 7,
			Mutating: -1}))
	}
	k := Storage{}
	k.Etcd.CertFile = "c.crt"
	if err := k.Complete(); err == nil || !strings.Contains(err.Error(), "--etcd-keyfile") {
		t.Errorf("a certificate without key: %v", err)
	}
}
