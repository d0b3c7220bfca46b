package controllers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// kinds are the API versions of the kinds that rows use; those of clusterScoped have no namespace.
var (
	kinds = map[string]string{"Pod": "v1", "Node": "v1", "Service": "v1", "Endpoints": "v1", "ConfigMap": "v1",
		"ServiceAccount": "v1", "Namespace": "v1", "PersistentVolume": "v1", "PersistentVolumeClaim": "v1",
		"ResourceQuota": "v1", "ReplicationController": "v1", "Event": "v1", "Secret": "v1",
		"PodGroup": "scheduling.k8s.io/v1beta1", "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1",
		"ReplicaSet": "apps/v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
		"ControllerRevision": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1",
		"ClusterRole":               "rbac.authorization.k8s.io/v1",
		"CertificateSigningRequest": "certificates.k8s.io/v1", "ClusterTrustBundle": "certificates.k8s.io/v1",
		"PodCertificateRequest": "certificates.k8s.io/v1",
		"VolumeAttachment":      "storage.k8s.io/v1", "VolumeAttributesClass": "storage.k8s.io/v1",
		"CSIDriver": "storage.k8s.io/v1", "StorageClass": "storage.k8s.io/v1",
		"HorizontalPodAutoscaler": "autoscaling/v2",
		"PodDisruptionBudget":     "policy/v1", "EndpointSlice": "discovery.k8s.io/v1",
		"ResourceClaim": "resource.k8s.io/v1", "ResourceClaimTemplate": "resource.k8s.io/v1",
		"ResourceSlice": "resource.k8s.io/v1", "DeviceTaintRule": "resource.k8s.io/v1"}
	clusterScoped = map[string]bool{"Node": true, "Namespace": true, "PersistentVolume": true, "ClusterRole": true,
		"CertificateSigningRequest": true, "ClusterTrustBundle": true, "VolumeAttachment": true,
		"VolumeAttributesClass": true, "StorageClass": true, "CSIDriver": true, "ResourceSlice": true,
		"DeviceTaintRule": true, "ValidatingAdmissionPolicy": true}
)

// instance is one namespace with the objects of a row, and what befalls the controller's
// writes there.
type instance struct {
	testing.TB
	ctx   context.Context
	api   dynamic.Interface
	token string // the namespace; part of the names of its objects without namespace
	fate  fate
	n     int // tells it from the row's other instances
}

func (w *instance) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: got error %v, want none", w.fate, err)
	}
}

func (w *instance) client(kind string) dynamic.ResourceInterface {
	version, known := kinds[kind]
	if !known {
		w.Fatalf("kind %s is not listed", kind)
	}
	group, err := schema.ParseGroupVersion(version)
	w.must(err)
	resource, _ := meta.UnsafeGuessKindToResource(group.WithKind(kind))
	if clusterScoped[kind] {
		return w.api.Resource(resource)
	}
	return w.api.Resource(resource).Namespace(w.token)
}

// split parts KIND/NAME; a name of a kind without namespace is made the instance's own.
func (w *instance) split(of string) (kind, name string) {
	kind, name, _ = strings.Cut(of, "/")
	return kind, strings.ReplaceAll(name, "NS", w.token)
}

// make creates the objects of a manifest, in which NS stands for the instance's token
// and NUMBER for
// its number, and then writes the status of those that have one.
func (w *instance) make(manifest string) {
	w.Helper()
	text := strings.NewReplacer("NS", w.token, "NUMBER", strconv.Itoa(w.n)).Replace(manifest)
	for _, doc := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		w.must(yaml.UnmarshalStrict([]byte(doc), &o.Object))
		o.SetAPIVersion(kinds[o.GetKind()])
		client := w.client(o.GetKind())
		made, err := client.Create(w.ctx, o, metav1.CreateOptions{})
		w.must(err)
		if status, has := o.Object["status"]; has {
			w.status(o.GetKind()+"/"+made.GetName(), status)
		}
	}
}

// status merges a status into an object's.
func (w *instance) status(of string, status any) {
	w.Helper()
	raw, err := json.Marshal(map[string]any{"status": status})
	w.must(err)
	w.patch(of, string(raw), "status")
}

// patch merges a change into an object.
func (w *instance) patch(of, change string, sub ...string) {
	w.Helper()
	kind, name := w.split(of)
	_, err := w.client(kind).Patch(w.ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{}, sub...)
	w.must(err)
}

func (w *instance) delete(of string) {
	w.Helper()
	kind, name := w.split(of)
	w.must(w.client(kind).Delete(w.ctx, name, metav1.DeleteOptions{}))
}

func (w *instance) get(of string) *unstructured.Unstructured {
	w.Helper()
	kind, name := w.split(of)
	o, err := w.client(kind).Get(w.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return o
}

func (w *instance) list(kind, selector string) []unstructured.Unstructured {
	w.Helper()
	all, err := w.client(kind).List(w.ctx, metav1.ListOptions{LabelSelector: selector})
	w.must(err)
	return all.Items
}

// live are the objects of a kind that do not end and, if they are Pods, have not.
func (w *instance) live(kind, selector string) (out []unstructured.Unstructured) {
	w.Helper()
	for _, o := range w.list(kind, selector) {
		phase := field(&o, "status.phase")
		if o.GetDeletionTimestamp() == nil && phase != "Failed" && phase != "Succeeded" {
			out = append(out, o)
		}
	}
	return out
}

// field returns the text of a field, empty if there is none: a.b[TYPE].c, with the element of a
// list that has this type, name or number. A slash in a name stands for a dot.
func field(o *unstructured.Unstructured, path string) string {
	var at any = o.Object
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		part = strings.ReplaceAll(part, "/", ".")
		switch x := at.(type) {
		case map[string]any:
			at = x[part]
		case []any:
			at = nil
			for i, e := range x {
				m, _ := e.(map[string]any)
				if strconv.Itoa(i) == part || m["type"] == part || m["name"] == part {
					at = e
				}
			}
		}
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}

// fieldIs returns an error unless a field of an object has this text.
func (w *instance) fieldIs(of, path, want string) error {
	w.Helper()
	o := w.get(of)
	if o == nil {
		return fmt.Errorf("%s does not exist", of)
	}
	if got := field(o, path); got != strings.ReplaceAll(want, "NS", w.token) {
		return fmt.Errorf("%s of %s is %q, want %q", path, of, got, want)
	}
	return nil
}

// isGone returns an error if an object exists.
func (w *instance) isGone(of string) error {
	w.Helper()
	if o := w.get(of); o != nil {
		return fmt.Errorf("%s exists: deleted %v, finalizers %v, status %v", of, o.GetDeletionTimestamp(),
			o.GetFinalizers(), o.Object["status"])
	}
	return nil
}

// exists returns an error unless an object exists and does not end.
func (w *instance) exists(of string) error {
	w.Helper()
	if o := w.get(of); o == nil || o.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s is not there, or ends", of)
	}
	return nil
}

// count returns an error unless there are this many live objects.
func (w *instance) count(kind, selector string, want int) error {
	w.Helper()
	if got := len(w.live(kind, selector)); got != want {
		return fmt.Errorf("%d of kind %s with %q, want %d", got, kind, selector, want)
	}
	return nil
}

// hasEvent returns an error unless an event of this reason is about an object of the instance.
func (w *instance) hasEvent(reason string) error {
	w.Helper()
	events := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	all, err := w.api.Resource(events).List(w.ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
	w.must(err)
	for _, e := range all.Items {
		if e.GetNamespace() == w.token || strings.Contains(field(&e, "involvedObject.name"), w.token) {
			return nil
		}
	}
	return fmt.Errorf("no event %s", reason)
}

// until polls until ok returns nil, until end.
func (w *instance) until(end time.Time, what string, ok func(*instance) error) error {
	w.Helper()
	for {
		err := ok(w)
		if err == nil {
			return nil
		}
		if time.Now().After(end) || w.ctx.Err() != nil {
			return fmt.Errorf("%s, %s: %w", w.fate, what, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-w.ctx.Done():
		}
	}
}

// allOf is a want of several.
func allOf(checks ...func(*instance) error) func(*instance) error {
	return func(w *instance) error {
		var errs []error
		for _, c := range checks {
			errs = append(errs, c(w))
		}
		return errors.Join(errs...)
	}
}

func fieldIs(of, path, want string) func(*instance) error {
	return func(w *instance) error { return w.fieldIs(of, path, want) }
}

func isGone(of string) func(*instance) error { return func(w *instance) error { return w.isGone(of) } }

func exists(of string) func(*instance) error { return func(w *instance) error { return w.exists(of) } }

func count(kind, selector string, n int) func(*instance) error {
	return func(w *instance) error { return w.count(kind, selector, n) }
}

func makes(manifest string) func(*instance) { return func(w *instance) { w.make(manifest) } }

func deletes(of string) func(*instance) { return func(w *instance) { w.delete(of) } }

func patches(of, change string, sub ...string) func(*instance) {
	return func(w *instance) { w.patch(of, change, sub...) }
}
