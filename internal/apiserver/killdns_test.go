package apiserver

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/dns"
)

// However often the server is killed, on a busy machine, cluster DNS learns of each Service that is
// made and deleted.
func TestDNSResumesAfterAServerKill(t *testing.T) {
	v, at := newVictim(t, func(string, string) {})
	client := overHTTPSTo(at).CoreV1().Services("default")
	create := func(name string) {
		written(t, v.log.Name(), func() error {
			_, err := client.Create(t.Context(), newService(name), metav1.CreateOptions{})
			return err
		})
	}
	create("before")
	names, err := dns.New(t.Context(), dns.Options{
		API: rootTo(at), Domain: "cluster.local", NoUpstreams: true, Node: "n1",
		Listen: dns.Listen{Bind: netip.MustParseAddrPort("127.0.0.1:0")},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- names.Run(ctx) }()
	defer func() { stop(); _ = <-ended }()
	awaitAnswer := func(name string, want int) {
		t.Helper()
		q, code := new(miekg.Msg), -1
		q.SetQuestion(name+".default.svc.cluster.local.", miekg.TypeA)
		ask := &miekg.Client{Timeout: 5 * time.Second}
		for end := time.Now().Add(2 * time.Minute); code != want; time.Sleep(20 * time.Millisecond) {
			if r, _, err := ask.Exchange(q, names.Address().String()); err == nil {
				code = r.Rcode
			}
			if time.Now().After(end) {
				message, _ := os.ReadFile(v.log.Name())
				t.Fatalf("%s: got %s, want %s\n%s", name, miekg.RcodeToString[code], miekg.RcodeToString[want], message)
			}
		}
	}
	awaitAnswer("before", miekg.RcodeSuccess)
	beBusy(t)
	last := "before"
	for round := range 4 {
		v.kill()
		v.start()
		name, started := fmt.Sprintf("round-%d", round), time.Now()
		create(name)
		awaitAnswer(name, miekg.RcodeSuccess)
		written(t, v.log.Name(), func() error { return client.Delete(t.Context(), last, metav1.DeleteOptions{}) })
		awaitAnswer(last, miekg.RcodeNameError)
		t.Logf("round %d: both answered after %s, the server's start included", round,
			time.Since(started).Round(time.Millisecond))
		last = name
	}
}
