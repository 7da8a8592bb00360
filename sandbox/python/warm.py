# Cells that a zygote runs once before it forks: their lazy imports, caches and first-call costs are
# then paid for all sessions.

import io, tempfile
import numpy as np
import pandas as pd
import matplotlib.pyplot as plt
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
import statsmodels.api as sm
import statsmodels.formula.api as smf

# %%
text = "day,group,x,y\n" + "\n".join(f"2024-01-{1 + i % 28:02d},{'abc'[i % 3]},{i},{(i * 7919) % 101 / 3}" for i in range(200))
df = pd.read_csv(io.StringIO(text), parse_dates=["day"])
df.loc[5, "x"] = np.nan
df.info(buf=io.StringIO())
str(df.head()), str(df.describe(include="all")), str(df.dtypes), df.shape, str(df.isnull().sum())
df["x"] = df["x"].fillna(df["x"].median())
df["z"] = df["x"] * 2 + df["y"]
df["month"] = df["day"].dt.month

# %%
str(df.groupby("group")["y"].agg(["mean", "std", "count"]))
str(df.groupby(["group", "month"]).sum(numeric_only=True).reset_index())
str(df.pivot_table(index="group", columns="month", values="y", aggfunc="mean"))
str(df.merge(df[["group", "x"]].drop_duplicates("group"), on="group", how="left"))
str(df[["x", "y", "z"]].corr()), str(df["group"].value_counts()), str(df.sort_values("y", ascending=False).head(3))
str(df[(df["y"] > 3) & df["group"].isin(["a", "b"])].quantile([0.25, 0.75], numeric_only=True))
str(pd.cut(df["y"], bins=3).value_counts()), str(pd.get_dummies(df["group"])), str(df.set_index("day")["y"].resample("7D").mean())
str(df["group"].str.upper().str.contains("A")), str(df.apply(lambda r: r["x"] + 1, axis=1)), str(pd.concat([df, df]).drop_duplicates())
str(df["y"].rolling(3).mean()), df.to_json(), df.to_csv(), str(df.y.skew()), str(np.percentile(df.y, 90))

# %%
stats.ttest_ind(df.x, df.y), stats.pearsonr(df.x, df.y), stats.spearmanr(df.x, df.y), stats.shapiro(df.y), stats.chi2_contingency([[5, 3], [2, 7]])
stats.zscore(df.y), stats.f_oneway(df.x, df.y, df.z), stats.mannwhitneyu(df.x, df.y), stats.linregress(df.x, df.y), stats.norm.cdf(1.0)
a, b, c, d = train_test_split(df[["x", "z"]], df["y"], random_state=0)
LinearRegression().fit(a, c).score(b, d)
LogisticRegression().fit(StandardScaler().fit_transform(a), c > 15)
RandomForestRegressor(n_estimators=3, random_state=0).fit(a, c).predict(b)
str(sm.OLS(c, sm.add_constant(a)).fit().summary()), str(smf.ols("y ~ x + C(group)", data=df).fit().params)

# %%
fig, ax = plt.subplots(1, 2)
ax[0].hist(df["y"], bins=10)
ax[0].set_title("y")
ax[0].set_xlabel("x")
ax[0].legend(["y"])
df.plot(x="x", y="y", ax=ax[1])
fig.savefig(io.BytesIO(), format="png")
plt.close("all")

# %%
with tempfile.TemporaryDirectory() as where:
    df.to_excel(where + "/t.xlsx")
    pd.read_excel(where + "/t.xlsx")
    df.to_parquet(where + "/t.parquet", engine="pyarrow")
