// Package printers makes the columns and cells of `kubectl get` that most kinds share.
//
// Descriptions are the API documentation that k8s.io/api ships with its types, as upstream's tables
// carry them. In: objects and a time to count ages from. Out: column definitions and cells.
package printers

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

// StringColumn is one column of type string.
func StringColumn(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// IntColumn is one column of type integer.
func IntColumn(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer", Description: description}
}

// WideColumns marks columns that show with -o wide only.
func WideColumns(defs ...metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	for i := range defs {
		defs[i].Priority = 1
	}
	return defs
}

// TemplateColumns are the wide columns over a Pod template and its selector, which the given text
// describes.
func TemplateColumns(selector string) []metav1.TableColumnDefinition {
	return WideColumns(
		StringColumn("Containers", "Names of each container in the template."),
		StringColumn("Images", "Images referenced by each container in the template."),
		StringColumn("Selector", selector),
	)
}

// NameColumn is the first column of every kind.
func NameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
}

// AgeColumn is the age column.
func AgeColumn() metav1.TableColumnDefinition {
	return StringColumn("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
}

// TimestampSince is the age cell of a moment: "5s", "3d", "<unknown>" when absent.
func TimestampSince(t, now metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// TimestampUntil is the cell of a moment to come or gone, as a duration.
func TimestampUntil(d time.Duration) string { return duration.HumanDuration(d) }

// ValueOrNone is the cell of a text that may be empty.
func ValueOrNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// FormatLabels prints a label set in key order, "<none>" when empty.
func FormatLabels(m map[string]string) string { return ValueOrNone(labels.FormatLabels(m)) }

// FormatLabelSelector prints a label selector, "<none>" when absent or empty.
func FormatLabelSelector(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }

// LayoutContainerCells are the names and images of a template's containers, joined by commas.
func LayoutContainerCells(list []v1.Container) (names, images string) {
	var n, im []string
	for i := range list {
		n, im = append(n, list[i].Name), append(im, list[i].Image)
	}
	return strings.Join(n, ","), strings.Join(im, ",")
}

// JoinLimited joins at most limit items and says how many more there are.
func JoinLimited(items []string, limit int) string {
	if len(items) == 0 {
		return "<none>"
	}
	if len(items) <= limit {
		return strings.Join(items, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(items[:limit], ","), len(items)-limit)
}

// CreatedAtColumn is the column of kinds without columns of their own.
func CreatedAtColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Created At", Type: "date",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}
}

// TimestampCell is the cell of CreatedAtColumn.
func TimestampCell(t metav1.Time) string { return t.Time.UTC().Format(time.RFC3339) }
