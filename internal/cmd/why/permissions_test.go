package why

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cli"
)

// A user who may read everything gets the node with its numbers, one who may read the Pods of one
// namespace gets no node and no PriorityClass; neither is offered the deletion of a Pod of another.
func TestWhyProposesOnlyWhatTheUserMaySee(t *testing.T) {
	pod := func(ns, name, node string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec: corev1.PodSpec{NodeName: node, SchedulerName: "default-scheduler",
				Containers: []corev1.Container{{Name: "c", Image: "i",
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}}}}}}
	}
	web, victim := pod("mine", "web", ""), pod("others", "rival", "secret-node")
	web.Status = corev1.PodStatus{Phase: corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient cpu."}}}
	victim.Status.Phase = corev1.PodRunning
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "secret-node"},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"),
			corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}}}
	seen := map[string]any{"/api/v1/namespaces/mine/pods/web": &web,
		"/api/v1/namespaces/mine/pods": &corev1.PodList{Items: []corev1.Pod{web}}}
	hidden := map[string]any{"/api/v1/nodes": &corev1.NodeList{Items: []corev1.Node{node}},
		"/api/v1/nodes/secret-node": &node, "/api/v1/pods": &corev1.PodList{Items: []corev1.Pod{web, victim}},
		"/apis/scheduling.k8s.io/v1/priorityclasses": &schedulingv1.PriorityClassList{
			Items: []schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "secret-class"}, Value: 1000}}}}
	ask := func(all bool) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			o := seen[r.URL.Path]
			if o == nil && all {
				o = hidden[r.URL.Path]
			}
			if o == nil {
				w.WriteHeader(http.StatusForbidden)
				o = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
					Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
			}
			if err := json.NewEncoder(w).Encode(o); err != nil {
				t.Error(err)
			}
		}))
		defer server.Close()
		file := filepath.Join(t.TempDir(), "kubeconfig")
		text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\nusers: "+
			"[{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a, namespace: "+
			"mine}}]\ncurrent-context: a\n", server.URL)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c := New(cli.IO{Out: &out, Err: &out})
		c.SetArgs([]string{"pod/web", "--kubeconfig", file})
		c.SetContext(t.Context())
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if reported := ask(true); !strings.Contains(reported, "2000m short of cpu") ||
		!strings.Contains(reported, "secret-node") || !strings.Contains(reported, "others/rival has 3000m") {
		t.Errorf("a user who may read everything got\n%s\nwant what is short on which node, and who has it", reported)
	}
	reported := ask(false)
	for _, secret := range []string{"secret-node", "others", "rival", "secret-class"} {
		if strings.Contains(reported, secret) {
			t.Errorf("the answer has %s:\n%s", secret, reported)
		}
	}
	if !strings.Contains(reported, "Insufficient cpu") {
		t.Errorf("got\n%s", reported)
	}
}
