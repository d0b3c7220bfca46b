package job

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Indexes is a set of completion indexes, formatted as "0,2-5".
type Indexes map[int]bool

// ParseIndexes parses the format; indexes at or beyond completions are dropped.
func ParseIndexes(text string, completions int) Indexes {
	out := Indexes{}
	for _, part := range strings.Split(text, ",") {
		low, high, ranged := strings.Cut(part, "-")
		a, err := strconv.Atoi(low)
		if err != nil {
			continue
		}
		b := a
		if ranged {
			if b, err = strconv.Atoi(high); err != nil {
				continue
			}
		}
		for i := a; i <= b && i < completions; i++ {
			out[i] = true
		}
	}
	return out
}

// String formats the set; ranges of three and more with a dash.
func (x Indexes) String() string {
	list := make([]int, 0, len(x))
	for i := range x {
		list = append(list, i)
	}
	sort.Ints(list)
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		switch j - i {
		case 0:
			parts = append(parts, strconv.Itoa(list[i]))
		case 1:
			parts = append(parts, strconv.Itoa(list[i]), strconv.Itoa(list[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", list[i], list[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func indexed(j *batchv1.Job) bool {
	return j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion
}

// indexOf returns the completion index of a Pod, -1 without one.
func indexOf(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return -1
	}
	return n
}

// failuresOf returns how often the Pod's index had failed before the Pod was created.
func failuresOf(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Annotations[batchv1.JobIndexFailureCountAnnotation])
	return n
}
