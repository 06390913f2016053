# ruff: noqa: B905, E731, B007 - programs as people write them
"""Programs with loops and branches as scientists write them."""

from __future__ import annotations

import numpy as np


def projectile(v0, angle, drag):
    """Simulate until it hits the ground; the range, interpolated."""
    x, y = 0.0, 0.0
    vx, vy = v0 * np.cos(angle), v0 * np.sin(angle)
    dt = 0.05
    while True:
        speed = np.sqrt(vx * vx + vy * vy)
        ax, ay = -drag * speed * vx, -9.81 - drag * speed * vy
        nx, ny = x + dt * vx, y + dt * vy
        vx, vy = vx + dt * ax, vy + dt * ay
        if ny < 0:
            return x + (nx - x) * y / (y - ny)
        x, y = nx, ny


def adaptive(y0, k, tol):
    """Heun with Euler inside, step control, until t = 1."""
    t, y, h = 0.0, y0, 0.1
    while t < 1.0:
        if t + h > 1.0:
            h = 1.0 - t
        k1 = -k * y + np.sin(t)
        k2 = -k * (y + h * k1) + np.sin(t + h)
        error = abs(h * (k2 - k1) / 2)
        if error < tol:
            t = t + h
            y = y + h * (k1 + k2) / 2
            h = h * 1.5
        else:
            h = h * 0.5
    return y


def viterbi(logits, transition, observed):
    n = len(observed)
    score = logits[:, observed[0]]
    back = []
    for t in range(1, n):
        every = score[:, None] + transition
        back.append(np.argmax(every, axis=0))
        score = np.max(every, axis=0) + logits[:, observed[t]]
    best = np.argmax(score)
    total = score[best]
    for t in range(n - 2, -1, -1):
        best = back[t][best]
    return total + 0.1 * best


def dtw(a, b):
    """Dynamic time warping with a table."""
    n, m = len(a), len(b)
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i, j] = (a[i - 1] - b[j - 1]) ** 2 + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[n, m]


def run_lengths(x, threshold):
    """Reward long runs above a threshold."""
    total, run = 0.0, 0
    for v in x:
        if v > threshold:
            run += 1
            total = total + v * run
        else:
            run = 0
    return total


def rejection(theta, proposals, u):
    """Accept what is under the density; mean of the first five, and how many were tried."""
    kept, tried = [], 0
    for z, v in zip(proposals, u):
        tried += 1
        if v < np.exp(-theta * z * z):
            kept.append(z * theta)
            if len(kept) == 5:
                break
    if not kept:
        return 0.0 * theta
    return sum(kept) / len(kept) + 0.01 * tried * theta


def gauss_seidel(A, b):
    x = np.zeros(len(b))
    for sweep in range(200):
        old = x.copy()
        for i in range(len(b)):
            s = b[i] - A[i] @ x + A[i, i] * x[i]
            x[i] = s / A[i, i]
        if np.max(np.abs(x - old)) < 1e-10:
            break
    return np.sum(x**2)


def lcs(s, t, weight, gap):
    """Longest common subsequence of integers, with a reward by letter."""
    n, m = len(s), len(t)
    L = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in range(n):
        for j in range(m):
            if s[i] == t[j]:
                L[i + 1][j + 1] = L[i][j] + weight[s[i]]
            else:
                L[i + 1][j + 1] = max(L[i][j + 1], L[i + 1][j]) - gap
    return L[n][m]


def loan(balance, rate, payment):
    """Interest with clauses: a bonus rate after a year, a fee on large balances, early payoff."""
    paid, month = 0.0, 0
    while balance > 0 and month < 48:
        month += 1
        r = rate if month <= 12 else 0.8 * rate
        interest = balance * r / 12
        if balance > 9000.0:
            interest = interest + 25.0
        due = min(balance + interest, payment)
        balance = balance + interest - due
        paid = paid + due
        if month % 12 == 0 and balance < 500.0:
            paid = paid + balance
            balance = 0.0
    return paid + 0.5 * balance


def pid(gains, target):
    y, integral, last, cost = 0.0, 0.0, 0.0, 0.0
    for t in range(36):
        e = target - y
        u = gains[0] * e + gains[1] * integral + gains[2] * (e - last) / 0.05
        if u > 2.0:
            u = 2.0
        elif u < -2.0:
            u = -2.0
        else:
            integral = integral + e * 0.05
        last = e
        y = y + 0.05 * (-0.5 * y + u)
        cost = cost + e * e * 0.05
    return cost


def power_iteration(A):
    v = np.ones(A.shape[0]) / np.sqrt(A.shape[0])
    value = v @ A @ v
    while True:
        w = A @ v
        w = w / np.linalg.norm(w)
        new = w @ A @ w
        if abs(new - value) < 1e-12:
            return new
        v, value = w, new


def machine(symbols, reward):
    """States 0, 1, 2 by an integer input; a Python number is the state."""
    state, total = 0, 0.0
    for k, s in enumerate(symbols):
        if state == 0:
            state = 1 if s > 2 else 0
        elif state == 1:
            if s == 0:
                state = 2
            elif s % 2:
                state = 0
        else:
            state = 0 if s == 3 else 2
        total = total + reward[state] * (k + 1)
    return total


def line_search(x0, a):
    """Gradient descent with backtracking inside a loss."""
    def f(x):
        return (1 - x[0]) ** 2 + a * (x[1] - x[0] ** 2) ** 2
    def g(x):
        return np.stack([-2 * (1 - x[0]) - 4 * a * x[0] * (x[1] - x[0] ** 2), 2 * a * (x[1] - x[0] ** 2)])
    x = x0
    for _ in range(15):
        d, step = g(x), 1.0
        while f(x - step * d) > f(x) - 0.3 * step * np.sum(d * d):
            step = step / 2
        x = x - step * d
    return f(x)


def barrier(sigma, noise):
    """Down-and-out call, paths in Python."""
    total = 0.0
    for path in noise:
        s = 1.0
        for z in path:
            s = s * np.exp(-0.5 * sigma**2 * 0.1 + sigma * np.sqrt(0.1) * z)
            if s < 0.8:
                break
        else:
            if s > 1.0:
                total = total + s - 1.0
    return total / len(noise)


def epidemic(beta, gamma, capacity):
    """SIR with a lockdown that begins and ends at different levels."""
    s, i, r = 0.99, 0.01, 0.0
    locked, cost = False, 0.0
    for day in range(40):
        if locked and i < 0.5 * capacity:
            locked = False
        elif not locked and i > capacity:
            locked = True
        b = 0.3 * beta if locked else beta
        new = b * s * i
        s, i, r = s - new, i + new - gamma * i, r + gamma * i
        cost = cost + i + (0.02 if locked else 0.0)
    return cost + r


def lookup(xs, ys, x):
    """Binary search in a table, then linear interpolation."""
    low, high = 0, len(xs) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if xs[middle] > x:
            high = middle
        else:
            low = middle
    w = (x - xs[low]) / (xs[high] - xs[low])
    return (1 - w) * ys[low] + w * ys[high]


def insertion(x, w):
    a = [x[k] for k in range(len(x))]
    for k in range(1, len(a)):
        j = k
        while j > 0 and a[j - 1] > a[j]:
            a[j - 1], a[j] = a[j], a[j - 1]
            j -= 1
    return np.sum(np.array(a) * w)


def golden(p):
    """Golden section search of a unimodal function, and its least value."""
    f = lambda x: (x - p) ** 2 + 0.1 * np.exp(x)
    a, b = 0.0 * p - 2.0, 0.0 * p + 3.0
    g = (np.sqrt(5) - 1) / 2
    c, d = b - g * (b - a), a + g * (b - a)
    while b - a > 1e-5:
        if f(c) < f(d):
            b = d
        else:
            a = c
        c, d = b - g * (b - a), a + g * (b - a)
    return f((a + b) / 2)


def sphere_tracing(radius, direction):
    p, t = np.array([0.0, 0.0, -3.0]), 0.0
    for _ in range(64):
        q = p + t * direction
        d = np.sqrt(np.sum(q * q)) - radius + 0.05 * np.sin(5 * q[0])
        if d < 1e-6:
            return t
        if t > 10:
            break
        t = t + d
    return 10.0 + 0.0 * radius


def american(sigma, strike):
    """American put in a binomial tree."""
    n, r = 12, 0.05
    dt = 1.0 / n
    u = np.exp(sigma * np.sqrt(dt))
    p = (np.exp(r * dt) - 1 / u) / (u - 1 / u)
    values = [max(strike - 100.0 * u ** (2 * j - n), 0.0) for j in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1):
            hold = np.exp(-r * dt) * (p * values[j + 1] + (1 - p) * values[j])
            exercise = strike - 100.0 * u ** (2 * j - i)
            values[j] = max(hold, exercise)
    return values[0]


def bouncing(h, restitution):
    """Events: fall, bounce, until little height is left or time is over."""
    t, v, heights = 0.0, np.sqrt(2 * 9.81 * h), 0.0
    t = t + v / 9.81
    while t < 5.0:
        v = restitution * v
        if v < 0.05:
            break
        heights = heights + v * v / (2 * 9.81)
        t = t + 2 * v / 9.81
    return heights + 0.1 * t


def perceptron(X, y, rate):
    w = np.zeros(X.shape[1])
    mistakes = 0
    for epoch in range(6):
        for row, label in zip(X, y):
            if label * (w @ row) <= 0:
                w = w + rate * label * row
                mistakes += 1
    return np.sum(w**2) + mistakes * rate


def newton2(p):
    """Newton in two dimensions until the residual is small."""
    x = np.array([2.0, 0.5])
    for k in range(30):
        r = np.stack([x[0] ** 2 + x[1] ** 2 - p[0], x[0] * x[1] - p[1]])
        if np.linalg.norm(r) < 1e-11:
            break
        J = np.array([[2 * x[0], 2 * x[1]], [x[1], x[0]]])
        x = x - np.linalg.solve(J, r)
    return x[0] + 2 * x[1]


def queue(arrivals, services, patience):
    wait, total, lost = 0.0, 0.0, 0
    for a, s in zip(arrivals, services):
        wait = max(0.0, wait - a)
        if wait > patience:
            lost += 1
            continue
        total = total + wait
        wait = wait + s
    return total + lost * patience


def mandelbrot(cx, cy):
    x, y, n = 0.0, 0.0, 0
    while x * x + y * y < 100.0 and n < 50:
        x, y = x * x - y * y + cx, 2 * x * y + cy
        n += 1
    if n == 50:
        return x * x + y * y
    return n - np.log2(np.log(x * x + y * y))
