package printers_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
)

// Cells as `kubectl get` shows them.
func TestCells(t *testing.T) {
	now := metav1.NewTime(time.Unix(1e9, 0))
	three := []string{"a", "b", "c"}
	for _, c := range []struct{ what, got, want string }{
		{"the age of nothing", printers.TimestampSince(metav1.Time{}, now), "<unknown>"},
		{"an age", printers.TimestampSince(metav1.NewTime(now.Add(-90*time.Second)), now), "90s"},
		{"a duration", printers.TimestampUntil(3 * time.Hour), "3h"},
		{"a time", printers.TimestampCell(metav1.NewTime(now.In(time.FixedZone("x", 3600)))), "2001-09-09T01:46:40Z"},
		{"no text", printers.ValueOrNone(""), "<none>"},
		{"a text", printers.ValueOrNone("x"), "x"},
		{"no labels", printers.FormatLabels(nil), "<none>"},
		{"labels", printers.FormatLabels(map[string]string{"b": "2", "a": "1"}), "a=1,b=2"},
		{"no selector", printers.FormatLabelSelector(nil), "<none>"},
		{"a selector", printers.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "1"}}),
			"a=1"},
		{"no items", printers.JoinLimited(nil, 2), "<none>"},
		{"one item", printers.JoinLimited(three[:1], 2), "a"},
		{"as many as are shown", printers.JoinLimited(three, 3), "a,b,c"},
		{"more than are shown", printers.JoinLimited(three, 2), "a,b + 1 more..."},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
	names, images := printers.LayoutContainerCells([]v1.Container{{Name: "a", Image: "x"}, {Name: "b", Image: "y"}})
	if names != "a,b" || images != "x,y" {
		t.Errorf("containers: got %q and %q, want a,b and x,y", names, images)
	}
}

// Columns' types, formats and priorities; descriptions are those of the API.
func TestColumns(t *testing.T) {
	doc := metav1.ObjectMeta{}.SwaggerDoc()
	wide := printers.WideColumns(printers.StringColumn("A", "a"), printers.IntColumn("B", "b"))
	for _, c := range []struct{ got, want metav1.TableColumnDefinition }{
		{wide[0], metav1.TableColumnDefinition{Name: "A", Type: "string", Description: "a", Priority: 1}},
		{wide[1], metav1.TableColumnDefinition{Name: "B", Type: "integer", Description: "b", Priority: 1}},
		{printers.NameColumn(), metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name",
			Description: doc["name"]}},
		{printers.AgeColumn(), metav1.TableColumnDefinition{Name: "Age", Type: "string",
			Description: doc["creationTimestamp"]}},
		{printers.CreatedAtColumn(), metav1.TableColumnDefinition{Name: "Created At", Type: "date",
			Description: doc["creationTimestamp"]}},
	} {
		if c.got != c.want || c.got.Description == "" {
			t.Errorf("got %+v, want %+v", c.got, c.want)
		}
	}
}
