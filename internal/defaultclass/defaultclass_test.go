package defaultclass

import (
	"slices"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of several defaults the newest counts, of equally new ones the first by name.
func TestNewest(t *testing.T) {
	class := func(name string, age time.Duration, mark string) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))}}
		if mark != "" {
			c.Annotations = map[string]string{mark: "true"}
		}
		return c
	}
	refused := class("refused", 0, "")
	refused.Annotations = map[string]string{"now": "false"}
	for _, c := range []struct {
		name string
		list []*storagev1.StorageClass
		want string
	}{
		{"none is marked", []*storagev1.StorageClass{class("a", 0, ""), class("b", 0, "other"), refused}, ""},
		{"the newest", []*storagev1.StorageClass{class("old", time.Hour, "now"), class("new", time.Minute, "once"),
			class("newest but unmarked", 0, "")}, "new"},
		{"in any order", []*storagev1.StorageClass{class("new", time.Minute, "now"), class("old", time.Hour, "now")},
			"new"},
		{"equally new: by name", []*storagev1.StorageClass{class("b", 0, "now"), class("a", 0, "now"),
			class("c", 0, "now")}, "a"},
	} {
		before := slices.Clone(c.list)
		got, ok := Newest(c.list, "now", "once")
		if ok != (c.want != "") || ok && got.Name != c.want {
			t.Errorf("%s: got %v, found %v; want %q (not found if empty)", c.name, got, ok, c.want)
		}
		if !slices.Equal(before, c.list) {
			t.Errorf("%s: the list was changed", c.name)
		}
	}
}
