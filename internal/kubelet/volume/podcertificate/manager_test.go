package podcertificate

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// A Pod waits for its first certificate and is notified when it comes; it is asked for the next one
// when that is due, with another key, and the first is used until the second is there. A Pod that
// goes leaves no key behind.
func TestACertificateIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		defer func() { stop(); synctest.Wait() }()
		api := fake.NewClientset(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "default",
			UID: "account"}})
		created := 0
		api.PrependReactor("create",
			"podcertificaterequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
				created++
				r := a.(clienttesting.CreateAction).GetObject().(*certificatesv1.PodCertificateRequest)
				r.Name = fmt.Sprint(r.GenerateName, created)
				return false, nil, nil
			})
		notified := map[types.UID]int{}
		c := New(ctx, Deps{
			Client: api, Now: time.Now, Changed: func(uid types.UID) { notified[uid]++ },
			Node: func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "node-uid"}} },
		})
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "pod"},
			Spec: v1.PodSpec{ServiceAccountName: "default"}}
		want := &v1.PodCertificateProjection{SignerName: "example.com/s", KeyType: "ED25519"}
		issue := func(name string) {
			t.Helper()
			requests := api.CertificatesV1().PodCertificateRequests("n")
			r, err := requests.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if s := r.Spec; s.PodUID != "pod" || s.NodeUID != "node-uid" || s.ServiceAccountUID != "account" ||
				s.NodeName != "node" {
				t.Errorf("asked as %+v", s)
			}
			r.Status = certificatesv1.PodCertificateRequestStatus{
				Conditions:       []metav1.Condition{{Type: "Issued", Status: "True"}},
				CertificateChain: "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n",
				BeginRefreshAt:   &metav1.Time{Time: time.Now().Add(time.Hour)},
				NotAfter:         &metav1.Time{Time: time.Now().Add(2 * time.Hour)},
			}
			before := notified["pod"]
			if _, err := requests.UpdateStatus(ctx, r, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if notified["pod"] == before {
				t.Errorf("the answer to %s is not notified", name)
			}
		}
		for range 2 { // a second look makes no second request
			if _, err := c.Credential(ctx, pod, "v", want); err == nil || !strings.Contains(err.Error(),
				"waiting for signer example.com/s to answer PodCertificateRequest n/req-p-1") {
				t.Fatalf(`got %v, want an error with "waiting for signer example.com/s to answer PodCertific…"`, err)
			}
			synctest.Wait()
		}
		issue("req-p-1")
		first, err := c.Credential(ctx, pod, "v", want)
		if err != nil || !first.RefreshAt.Equal(time.Now().Add(time.Hour)) || created != 1 {
			t.Fatalf("the first: again at %s, asked %d times: %v", first.RefreshAt, created, err)
		}
		time.Sleep(time.Hour)
		for range 2 {
			if got, err := c.Credential(ctx, pod, "v", want); err != nil || !bytes.Equal(got.Key, first.Key) ||
				created != 2 {
				t.Fatalf("while the second is waited for: asked %d times: %v", created, err)
			}
			synctest.Wait()
		}
		issue("req-p-2")
		if got, err := c.Credential(ctx, pod, "v", want); err != nil || bytes.Equal(got.Key, first.Key) ||
			!got.RefreshAt.After(first.RefreshAt) {
			t.Errorf("the second has the first's key, or comes back at %s: %v", got.RefreshAt, err)
		}
		c.UnregisterPod("other")
		if len(c.states) != 1 {
			t.Errorf("another Pod's end takes the key: got %d, want 1", len(c.states))
		}
		if c.UnregisterPod("pod"); len(c.states) != 0 {
			t.Errorf("the key stays when the Pod is gone: got %d, want 0", len(c.states))
		}
	})
}
