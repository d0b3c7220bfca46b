package app

import (
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/apiserver"
)

func TestBoundsOfRequestsAndPairsOfFiles(t *testing.T) {
	if got := (&apiServerOptions{maxReadsInFlight: 7}).inFlight(); got != (apiserver.MaxInFlight{NonMutating: 7,
		Mutating: -1}) {
		t.Errorf("a bound of reads alone: %+v", got)
	}
	k := storageOptions{}
	k.etcd.CertFile = "c.crt"
	if err := k.complete(); err == nil || !strings.Contains(err.Error(), "--etcd-keyfile") {
		t.Errorf("a certificate without key: %v", err)
	}
}
