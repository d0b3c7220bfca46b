package apiserver

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func newService(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}}}}
}

// entries are the IPAddress objects by name, with who holds them.
func entries(t *testing.T, c kubernetes.Interface) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, a := range mustCreate[*networkingv1.IPAddressList](t)(c.NetworkingV1().IPAddresses().List(t.Context(),
		metav1.ListOptions{})).Items {
		out[a.Name] = a.Spec.ParentRef.Name
	}
	return out
}

// Every cluster address has its IPAddress object, which comes and goes with the Service; further
// ServiceCIDRs give more; nothing is given twice or lost over a restart.
func TestServicesHaveIPAddresses(t *testing.T) {
	config := testConfig(t.TempDir())
	// 14 addresses, one of which is the kubernetes Service's
	config.Services.CIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/28")}
	_, c, stop := startServer(t, config)
	ns := newNamespace(t, c)
	services := c.CoreV1().Services(ns)
	var wg sync.WaitGroup
	for i := range 13 {
		wg.Go(func() {
			if _, err := services.Create(t.Context(), newService(fmt.Sprintf("s-%d", i)),
				metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := entries(t, c); len(got) != 14 || got["10.96.0.1"] != "kubernetes" {
		t.Fatalf("IPAddresses: %v", got)
	}
	if _, err := services.Create(t.Context(), newService("full"), metav1.CreateOptions{}); err == nil {
		t.Fatal("a fifteenth address of a /28")
	}
	mustCreate[*networkingv1.ServiceCIDR](t)(c.NetworkingV1().ServiceCIDRs().Create(t.Context(),
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.97.0.0/28"}}}, metav1.CreateOptions{}))
	var more *corev1.Service
	eventually(t, "the further range is used", func() (ok bool) {
		var err error
		more, err = services.Create(t.Context(), newService("more"), metav1.CreateOptions{})
		return err == nil
	})
	if !netip.MustParsePrefix("10.97.0.0/28").Contains(netip.MustParseAddr(more.Spec.ClusterIP)) ||
		entries(t, c)[more.Spec.ClusterIP] != "more" {
		t.Errorf("%s, entries %v", more.Spec.ClusterIP, entries(t, c))
	}
	if _, err := services.Create(t.Context(), newService("dry"), metav1.CreateOptions{DryRun: []string{"All"}}); err !=
		nil || len(entries(t, c)) != 15 {
		t.Errorf("a dry run: %v, %v, want no error, 15 of them", err, entries(t, c))
	}
	eventually(t, "the range says that it is ready", func() bool {
		r, err := c.NetworkingV1().ServiceCIDRs().Get(t.Context(), "more", metav1.GetOptions{})
		return err == nil && len(r.Finalizers) == 1 && len(r.Status.Conditions) == 1 &&
			r.Status.Conditions[0].Status == metav1.ConditionTrue
	})
	stop()
	_, c, _ = startServer(t, config)
	services = c.CoreV1().Services(ns)
	if got := entries(t, c); len(got) != 15 {
		t.Errorf("after a restart: %v, want 15 of them", got)
	}
	if err := c.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the range says that it is in use", func() bool {
		r, err := c.NetworkingV1().ServiceCIDRs().Get(t.Context(), "more", metav1.GetOptions{})
		return err == nil && r.Status.Conditions[0].Reason == networkingv1.ServiceCIDRReasonTerminating
	})
	for _, name := range []string{"more", "s-3"} {
		if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the range goes with its last address", func() bool {
		_, err := c.NetworkingV1().ServiceCIDRs().Get(t.Context(), "more", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	again := mustCreate[*corev1.Service](t)(services.Create(t.Context(), newService("again"), metav1.CreateOptions{}))
	if got := entries(t, c); len(got) != 14 || got[again.Spec.ClusterIP] != "again" {
		t.Errorf("the address of s-3 is %s's: %v", again.Spec.ClusterIP, got)
	}
}

// A cluster that is started again with a range of the second family has it from then on; what it
// had before stays.
func TestASecondFamilyComes(t *testing.T) {
	config := testConfig(t.TempDir())
	config.Services.CIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/28")}
	_, c, stop := startServer(t, config)
	ns := newNamespace(t, c)
	before := mustCreate[*corev1.Service](t)(c.CoreV1().Services(ns).Create(t.Context(), newService("before"),
		metav1.CreateOptions{}))
	stop()
	config.Services.CIDRs = append(config.Services.CIDRs, netip.MustParsePrefix("fd96::/112"))
	_, c, _ = startServer(t, config)
	if r := mustCreate[*networkingv1.ServiceCIDR](t)(c.NetworkingV1().ServiceCIDRs().Get(t.Context(),
		"kubernetes", metav1.GetOptions{})); fmt.Sprint(r.Spec.CIDRs) != "[10.96.0.0/28 fd96::/112]" {
		t.Errorf("ranges: %v", r.Spec.CIDRs)
	}
	both := newService("both")
	policy := corev1.IPFamilyPolicyRequireDualStack
	both.Spec.IPFamilyPolicy = &policy
	both = mustCreate[*corev1.Service](t)(c.CoreV1().Services(ns).Create(t.Context(), both, metav1.CreateOptions{}))
	if len(both.Spec.ClusterIPs) != 2 || !config.Services.CIDRs[1].Contains(
		netip.MustParseAddr(both.Spec.ClusterIPs[1])) || entries(t, c)[both.Spec.ClusterIPs[1]] != "both" {
		t.Errorf("%v, entries %v", both.Spec.ClusterIPs, entries(t, c))
	}
	if now := mustCreate[*corev1.Service](t)(c.CoreV1().Services(ns).Get(t.Context(),
		"before", metav1.GetOptions{})); now.Spec.ClusterIP != before.Spec.ClusterIP || len(now.Spec.ClusterIPs) != 1 {
		t.Errorf("before: %v, now: %v", before.Spec.ClusterIPs, now.Spec.ClusterIPs)
	}
}
