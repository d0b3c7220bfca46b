// Package column makes the columns and cells of `kubectl get` that most kinds share.
//
// Chapter 1, written. Descriptions are the API documentation that k8s.io/api ships with its types, as upstream's tables carry them.
// In: objects and a time to count ages from. Out: column definitions and cells.
package column

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Def is one column of type string.
func Def(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// Int is one column of type integer.
func Int(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer", Description: description}
}

// Wide marks columns that show with -o wide only.
func Wide(defs ...metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	for i := range defs {
		defs[i].Priority = 1
	}
	return defs
}

// Name is the first column of every kind.
func Name() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
}

// Age is the age column.
func Age() metav1.TableColumnDefinition {
	return Def("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
}

// Since is the age cell of a moment: "5s", "3d", "<unknown>" when absent.
func Since(t, now metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// Until is the cell of a moment to come or gone, as a duration.
func Until(d time.Duration) string { return duration.HumanDuration(d) }

// OrNone is the cell of a text that may be empty.
func OrNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// Labels prints a label set in key order, "<none>" when empty.
func Labels(m map[string]string) string { return OrNone(labels.FormatLabels(m)) }

// Selector prints a label selector, "<none>" when absent or empty.
func Selector(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }

// Containers are the names and images of a template's containers, joined by commas.
func Containers(list []v1.Container) (names, images string) {
	var n, im []string
	for i := range list {
		n, im = append(n, list[i].Name), append(im, list[i].Image)
	}
	return strings.Join(n, ","), strings.Join(im, ",")
}

// Few joins at most limit items and says how many more there are.
func Few(items []string, limit int) string {
	if len(items) == 0 {
		return "<none>"
	}
	if len(items) <= limit {
		return strings.Join(items, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(items[:limit], ","), len(items)-limit)
}

// CreatedAt is the column of kinds without columns of their own.
func CreatedAt() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}
}

// Timestamp is the cell of CreatedAt.
func Timestamp(t metav1.Time) string { return t.Time.UTC().Format(time.RFC3339) }
