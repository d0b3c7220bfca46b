package gather

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/scheduler/server"
)

// Scheduler asks the scheduler of this instance; nil when it has none that serves. It shows a
// client certificate and never a token: the port signs itself, so that nobody knows who listens.
func (s *Gatherer) Scheduler(ctx context.Context, cfg *rest.Config) *doctor.Scheduler {
	address := options.SchedulerAddress(s.Instance.DataDir, net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port)))
	if address == "" {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: Timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	_ = conn.Close() // it was only to see whether somebody is there
	own := &rest.Config{Host: "https://" + address, Timeout: Timeout,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertFile: cfg.CertFile, KeyFile: cfg.KeyFile,
			CertData: cfg.CertData, KeyData: cfg.KeyData}}
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return &doctor.Scheduler{Address: address, Err: err}
	}
	got, err := httpGet(ctx, client, own.Host+"/metrics")
	if err == nil && got.code != http.StatusOK {
		err = fmt.Errorf("/metrics answered %d", got.code)
	}
	if err != nil {
		return &doctor.Scheduler{Address: address, Err: err}
	}
	return doctor.ReadScheduler(address, bytes.NewReader(got.body))
}
