package storage

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

func messages(errs field.ErrorList) string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return strings.Join(out, "; ")
}

// Of several default classes a list marks the newest, of equally new ones the first by name.
func TestTheDefaultClassIsMarked(t *testing.T) {
	class := func(name string, age time.Duration, annotation string) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(
			time.Unix(1e9, 0).Add(-age)), Annotations: map[string]string{annotation: "true"}}}
	}
	const now, beta = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	for name, c := range map[string]struct {
		list []storagev1.StorageClass
		want string
	}{
		"none": {[]storagev1.StorageClass{class("a", 0, "x"), class("b", 0, "x")}, "a b"},
		"one":  {[]storagev1.StorageClass{class("a", 0, "x"), class("b", 0, beta)}, "a b (default)"},
		"newest": {[]storagev1.StorageClass{class("a", 2, now), class("b", 1, beta), class("c", 3, now)},
			"a b (default) c"},
		"by name":   {[]storagev1.StorageClass{class("b", 1, now), class("a", 1, now)}, "b a (default)"},
		"no object": {nil, ""},
	} {
		row := classRows(&storagev1.StorageClassList{Items: c.list})
		var got []string
		for i := range c.list {
			got = append(got, row(&c.list[i], resourcedef.RowOptions{})[0].(string))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: got %q, want %q", name, s, c.want)
		}
	}
}

// Bounds, at and beyond them.
func TestBounds(t *testing.T) {
	driver := func(n int) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", n)}}
	}
	tokens := func(seconds int64) *storagev1.CSIDriver {
		d := driver(1)
		d.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "a", ExpirationSeconds: &seconds}}
		return d
	}
	attachment := func(s storagev1.VolumeAttachmentStatus) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{Status: s}
	}
	text := func(n int) string { return strings.Repeat("x", n) }
	const token = "spec.tokenRequests[0].expirationSeconds: Invalid value: "
	for _, c := range []struct{ what, got, want string }{
		{"a name", messages(checkDriver(driver(63), nil)), ""},
		{"a longer name", messages(checkDriver(driver(64), nil)),
			"metadata.name: Too long: may not be more than 63 bytes"},
		{"a longer name that is stored", messages(checkDriver(driver(64), driver(64))), ""},
		{"a name that is no name at all", messages(checkDriver(driver(254), nil)), ""},
		{"ten minutes", messages(checkDriver(tokens(600), nil)), ""},
		{"less", messages(checkDriver(tokens(599), nil)), token +
			"599: may not specify a duration less than 10 minutes"},
		{"2^32 seconds", messages(checkDriver(tokens(1<<32), nil)), ""},
		{"more", messages(checkDriver(tokens(1<<32+1), nil)), token +
			"4294967297: may not specify a duration larger than 2^32 " +
			"seconds"},
		{"no binding mode", messages(checkClass(&storagev1.StorageClass{Provisioner: "p"}, nil)),
			"volumeBindingMode: Required value"},
		{"metadata", messages(checkAttachmentStatus(attachment(storagev1.VolumeAttachmentStatus{
			AttachmentMetadata: map[string]string{"k": text(maxMetadataLength - 1)}}), nil)), ""},
		{"more metadata", messages(checkAttachmentStatus(attachment(storagev1.VolumeAttachmentStatus{
			AttachmentMetadata: map[string]string{"k": text(maxMetadataLength)}}), nil)),
			fmt.Sprintf("status.attachmentMetadata: Too long: may not be more than %d bytes", maxMetadataLength)},
		{"a message", messages(checkAttachmentStatus(attachment(storagev1.VolumeAttachmentStatus{
			AttachError: &storagev1.VolumeError{Message: text(maxErrorLength), ErrorCode: new(int32(0))}}), nil)), ""},
		{"a longer message", messages(checkAttachmentStatus(attachment(storagev1.VolumeAttachmentStatus{
			DetachError: &storagev1.VolumeError{Message: text(maxErrorLength + 1)}}), nil)),
			fmt.Sprintf("status.detachError.message: Too long: may not be more than %d bytes", maxErrorLength)},
		{"a code", messages(checkAttachmentStatus(attachment(storagev1.VolumeAttachmentStatus{
			AttachError: &storagev1.VolumeError{ErrorCode: new(int32(-1))}}), nil)),
			fmt.Sprintf("status.attachError.errorCode: Invalid value: -1: must be between 0 and %d, inclusive",
				math.MaxInt32)},
	} {
		if c.got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.what, c.got, c.want)
		}
	}
}

// Deprecated labels of nodes are warned of wherever a topology names them.
func TestDeprecatedLabels(t *testing.T) {
	const zone = "failure-domain.beta.kubernetes.io/zone"
	class := &storagev1.StorageClass{AllowedTopologies: []corev1.TopologySelectorTerm{{}, {
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "x"}, {Key: zone}}}}}
	capacity := &storagev1.CSIStorageCapacity{NodeTopology: &metav1.LabelSelector{
		MatchLabels:      map[string]string{"x": "", zone: ""},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x"}, {Key: zone}}}}
	const instead = `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`
	for _, c := range []struct{ got, want string }{
		{strings.Join(warnClass(class), "; "), "allowedTopologies[1].matchLabelExpressions[1].key: " + instead},
		{strings.Join(warnCapacity(capacity), "; "), "nodeTopology.matchExpressions[1].key: " + zone + " is " +
			instead +
			"; nodeTopology.matchLabels." + zone + ": " + instead},
		{strings.Join(warnCapacity(&storagev1.CSIStorageCapacity{}), "; "), ""},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}
