package breaker

import (
	"os"
	"slices"
	"testing"

	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/testcluster"
)

// areasQuick are the kinds, by parts of their names, that `make test` plays.
const areasQuick = "a finalizer|whose Pods have a gate|which requests nothing|as many as are wanted|default limit|" +
	"suspended Job whose|a class that never|a member is missing|no node may have|one is taken"

// leastAreasPercent of the points of newWorkloadKinds and newSchedulingKinds has to be reached.
const leastAreasPercent = 80

// As TestTheBreakIsNamed, for workloads and scheduling; PodGroups are served. GANTRY_FRESH plays
// all kinds, otherwise a few.
func TestTheBreakOfWorkloadsAndPlacesIsNamed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays dozens of breaks")
	}
	seed, seeds := number("GANTRY_SEED", 1), number("GANTRY_SEEDS", 1)
	b, r := startOn(t, newBreaker, testcluster.WithFeatures(features.Features{GenericWorkload: true})), newTotals()
	for s := seed; s < seed+seeds; s++ {
		kinds := slices.Concat(newWorkloadKinds, newSchedulingKinds)
		b.playAll(t.Context(), r, s, slices.DeleteFunc(kinds, func(k kind) bool {
			return os.Getenv("GANTRY_FRESH") == "" && !inField(k.name, areasQuick)
		}))
	}
	r.report(t, leastAreasPercent)
}

// The same for the kinds for which no rule was made; they have to be set up, and their points are
// for comparing.
func TestTheFreshBreakOfWorkloadsAndPlacesIsNamed(t *testing.T) {
	t.Parallel()
	if os.Getenv("GANTRY_FRESH") == "" {
		t.Skip("plays dozens of breaks with GANTRY_FRESH=1")
	}
	seed, seeds := number("GANTRY_SEED", 1), number("GANTRY_SEEDS", 1)
	b, r := startOn(t, newBreaker, testcluster.WithFeatures(features.Features{GenericWorkload: true})), newTotals()
	for s := seed; s < seed+seeds; s++ {
		b.playAll(t.Context(), r, s, freshAreaKinds)
	}
	r.report(t, 0)
}
