// Package csisanity runs csi-sanity, the CSI project's suite for drivers (csi-test v5), whole.
//
// In: the socket of a driver that listens, and a directory for its mounts. Out: the suite's tests
// as one of Go's. The suite can run once in a process.
//
// The suite's own way to connect loses a race: it waits for a change after it has looked, and a
// connection that was ready by then never changes again, for a minute. It is given a connection
// instead, which it takes when no address is configured.
package csisanity

import (
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Mode is of which volumes the suite makes use.
type Mode struct {
	Parameters map[string]string // of CreateVolume
	Raw        bool              // block volumes
}

// Run runs the suite against the driver at a socket; volumes are mounted in dir. A process can run
// it once.
func Run(t *testing.T, socket, dir string, m Mode) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	c := sanity.NewTestConfig()
	c.TargetPath, c.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	c.TestVolumeSize, c.TestVolumeExpandSize = 32<<20, 64<<20
	c.TestVolumeParameters = m.Parameters
	if m.Raw {
		c.TestVolumeAccessType = "block"
	}
	s := sanity.GinkgoTest(&c)
	s.Conn = conn
	defer s.Finalize() // closes the connection
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "CSI Driver Test Suite")
}
