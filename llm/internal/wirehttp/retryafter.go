package wirehttp

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// mostAfter bounds what a provider may ask for, so that nothing overflows.
const mostAfter = 30 * 24 * time.Hour

// retryAfter returns how long the provider asks to wait, 0 when it does not or the
// moment has passed. It knows retry-after-ms, and Retry-After as seconds or as a date,
// which is compared with the answer's own Date, because clocks differ.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return bounded(ms * float64(time.Millisecond))
	}
	after := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(after, 64); err == nil {
		return bounded(s * float64(time.Second))
	}
	until, err := http.ParseTime(after)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return bounded(float64(until.Sub(now)))
}

func bounded(d float64) time.Duration {
	if math.IsNaN(d) || d <= 0 {
		return 0
	}
	return time.Duration(min(d, float64(mostAfter)))
}
